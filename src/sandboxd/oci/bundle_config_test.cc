#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandboxd/oci/bundle.h"

namespace osb::sandboxd {
namespace {

namespace json = boost::json;

json::value config_of(const LaunchPlan& plan, const Bundle& bundle = {.root = "/place/root", .binds = {}},
                      const std::string& cgroups_path = "") {
  auto text = encode_bundle_config(plan, bundle, "/proc/1/fd/9", cgroups_path);
  EXPECT_TRUE(text) << text.error().message;
  return text ? json::parse(*text) : json::value();
}

const json::object* find(const json::value& list, const char* key, std::string_view wanted) {
  for (const json::value& each : list.as_array()) {
    if (each.at(key).as_string() == wanted) return &each.as_object();
  }
  return nullptr;
}

TEST(BundleConfig, SaysWhatThePlanSays) {
  LaunchPlan plan;
  plan.argv = {"/opt/opensandbox/execd", "--port", "44772"};
  plan.env = {"A=b"};
  plan.cwd = "/work";
  plan.hostname = "box";
  plan.uid = 1000;
  plan.gid = 100;
  plan.groups = {7, 8};
  plan.id_base = 1'000'000;
  plan.shm_bytes = 4096;
  plan.ulimits = {{RLIMIT_NOFILE, {10, 20}}};
  const json::value config = config_of(plan);
  const json::value& process = config.at("process");
  EXPECT_EQ(process.at("args"), (json::array{"/opt/opensandbox/execd", "--port", "44772"}));
  EXPECT_EQ(process.at("env"), (json::array{"A=b"}));
  EXPECT_EQ(process.at("cwd"), "/work");
  EXPECT_EQ(process.at("user"), (json::object{{"uid", 1000}, {"gid", 100}, {"additionalGids", json::array{7, 8}}}));
  EXPECT_EQ(process.at("rlimits"), (json::array{json::object{{"type", "RLIMIT_NOFILE"}, {"soft", 10}, {"hard", 20}}}));
  EXPECT_EQ(config.at("hostname"), "box");
  EXPECT_EQ(config.at("root").at("path"), "/place/root");
  const json::value& kernel = config.at("linux");
  EXPECT_EQ(kernel.at("uidMappings"),
            (json::array{json::object{{"containerID", 0}, {"hostID", 1'000'000}, {"size", 65536}}}));
  EXPECT_EQ(kernel.at("uidMappings"), kernel.at("gidMappings"));
  ASSERT_NE(find(kernel.at("namespaces"), "type", "network"), nullptr);
  EXPECT_EQ(find(kernel.at("namespaces"), "type", "network")->at("path"), "/proc/1/fd/9");
  for (const char* type : {"pid", "mount", "ipc", "uts", "user"}) {
    const json::object* one = find(kernel.at("namespaces"), "type", type);
    ASSERT_NE(one, nullptr) << type;
    EXPECT_FALSE(one->contains("path")) << type << " must be a new one";
  }
  const json::object* shm = find(config.at("mounts"), "destination", "/dev/shm");
  ASSERT_NE(shm, nullptr);
  EXPECT_THAT(json::serialize(shm->at("options")), ::testing::HasSubstr("\"size=4096\""));
}

TEST(BundleConfig, CapabilitiesAreBoundedAndOnlyRootsAreInEffect) {
  LaunchPlan plan;
  const auto effective = [&] { return config_of(plan).at("process").at("capabilities").at("effective").as_array(); };
  EXPECT_EQ(effective(), config_of(plan).at("process").at("capabilities").at("bounding").as_array());
  EXPECT_EQ(effective().size(), kernel::capability_names(kDefaultCapabilities).size());
  EXPECT_THAT(json::serialize(effective()), ::testing::Not(::testing::HasSubstr("CAP_SYS_ADMIN")));
  plan.uid = 1000;
  EXPECT_TRUE(effective().empty());
  EXPECT_EQ(config_of(plan).at("process").at("noNewPrivileges"), true);
}

TEST(BundleConfig, BindsComeInTheirOrderAfterTheKernelsOwnMounts) {
  const Bundle bundle{.root = "/r", .binds = {{"/place/a", "/data", false}, {"/place/b", "/data/below", true}}};
  const json::array mounts = config_of({}, bundle).at("mounts").as_array();
  const json::value& last = mounts.back();
  const json::value& before = mounts[mounts.size() - 2];
  EXPECT_EQ(before.at("source"), "/place/a");
  EXPECT_EQ(last.at("destination"), "/data/below");
  EXPECT_THAT(json::serialize(before.at("options")), ::testing::HasSubstr("\"rw\""));
  EXPECT_THAT(json::serialize(last.at("options")), ::testing::HasSubstr("\"ro\""));
  for (const json::value* each : {&before, &last}) {
    EXPECT_THAT(json::serialize(each->at("options")), ::testing::HasSubstr("\"nosuid\",\"nodev\""));
  }
}

TEST(BundleConfig, TheCgroupIsNamedOnlyForRuntimesThatAsk) {
  EXPECT_FALSE(config_of({}).at("linux").as_object().contains("cgroupsPath"));
  EXPECT_EQ(config_of({}, {}, "/opensandbox/x").at("linux").at("cgroupsPath"), "/opensandbox/x");
}

TEST(BundleConfig, DeviceNodesAreRefused) {
  LaunchPlan plan;
  plan.devices = {{.name = "nvidia0", .mode = S_IFCHR | 0666, .device = 0}};
  const auto text = encode_bundle_config(plan, {}, "", "");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Code::Unsupported);
}

}  // namespace
}  // namespace osb::sandboxd
