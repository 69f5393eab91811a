#include "sandboxd/sandbox/launch_request.h"

#include <algorithm>
#include <filesystem>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

using api::native::CreateSandbox;
using Words = std::vector<std::string>;

bool has(const Words& words, const std::string& word) { return std::ranges::find(words, word) != words.end(); }

// What stands behind "--".
Words entrypoint_of(const Words& argv) {
  const auto dashes = std::ranges::find(argv, "--");
  return dashes == argv.end() ? Words{} : Words(dashes + 1, argv.end());
}

TEST(LaunchRequest, TheEntrypointIsTheRequestsOrElseTheImages) {
  CreateSandbox spec;
  image::ImageConfig image;
  EXPECT_EQ(entrypoint_of(execd_arguments(spec, image)), Words{});
  image.entrypoint = {"/init"};
  image.cmd = {"--fast"};
  EXPECT_EQ(entrypoint_of(execd_arguments(spec, image)), (Words{"/init", "--fast"}));
  spec.entrypoint = {"sleep", "1"};
  EXPECT_EQ(entrypoint_of(execd_arguments(spec, image)), (Words{"sleep", "1"}));
}

TEST(LaunchRequest, WithoutInheritedDescriptorsEverythingHasAPathInside) {
  CreateSandbox spec;
  spec.entrypoint = {"sleep", "1"};
  const Words argv = oci_execd_arguments(spec, {});
  EXPECT_EQ(argv.front(), "/opt/opensandbox/execd");
  EXPECT_FALSE(has(argv, "--listen-fd"));
  EXPECT_TRUE(has(argv, "44772"));
  EXPECT_EQ(entrypoint_of(argv), (Words{"sleep", "1"}));
}

TEST(LaunchRequest, HiddenCgroupFilesAreInheritedByNumber) {
  const Words files = {"cpu.stat", "memory.current"};
  const Words argv = execd_arguments({}, {}, files);
  EXPECT_TRUE(has(argv, "cpu.stat=/proc/self/fd/6"));
  EXPECT_TRUE(has(argv, "memory.current=/proc/self/fd/7"));
}

TEST(LaunchRequest, FilesOfTheCgroupHaveAPathWhereDescriptorsAreNotInherited) {
  CgroupPlan cgroup;
  cgroup.stat_files.emplace_back("cpu.stat", UniqueFd());
  EXPECT_TRUE(has(oci_execd_arguments({}, {}, cgroup), "cpu.stat=/opt/opensandbox/cgroup/cpu.stat"));
}

TEST(LaunchRequest, NoPortIsOpenedInTheHostsNetwork) {
  CreateSandbox spec;
  EXPECT_TRUE(has(execd_arguments(spec, {}), "44772"));
  spec.network = api::native::NetworkMode::Host;
  EXPECT_FALSE(has(execd_arguments(spec, {}), "44772"));
}

TEST(LaunchRequest, TheRequestsVariablesWinButNotOverTheToken) {
  CreateSandbox spec;
  spec.env = {{"A", "request"}, {"EXECD_ACCESS_TOKEN", "mine"}};
  image::ImageConfig image;
  image.env = {"A=image", "B=image"};
  const Words env = execd_environment(spec, image, {.uid = 0, .gid = 0, .groups = {}, .home = "/root"}, "secret");
  EXPECT_TRUE(has(env, "A=request"));
  EXPECT_FALSE(has(env, "A=image"));
  EXPECT_TRUE(has(env, "B=image"));
  EXPECT_TRUE(has(env, "HOME=/root"));
  EXPECT_TRUE(has(env, "EXECD_ACCESS_TOKEN=secret"));
  EXPECT_EQ(std::ranges::count_if(env, [](const std::string& e) { return e.starts_with("EXECD_ACCESS_TOKEN="); }), 1);
  EXPECT_EQ(std::ranges::count_if(env, [](const std::string& e) { return e.starts_with("PATH="); }), 1);
}

TEST(LaunchRequest, AHostnameIsGivenOrMadeFromTheId) {
  CreateSandbox spec;
  spec.id = "0123456789abcdef";
  EXPECT_EQ(hostname_of(spec), "0123456789ab");
  spec.hostname = "box";
  EXPECT_EQ(hostname_of(spec), "box");
  EXPECT_NE(hosts_file("box", "10.0.0.2").find("10.0.0.2\tbox\n"), std::string::npos);
  EXPECT_NE(hosts_file("box", "").find("127.0.0.1\tbox\n"), std::string::npos);
}

TEST(LaunchRequest, LimitsOfTheKernelAreKnownByName) {
  CreateSandbox spec;
  spec.ulimits = {{"nofile", 100}};
  const auto limits = ulimits_of(spec);
  ASSERT_TRUE(limits);
  ASSERT_EQ(limits->size(), 1u);
  EXPECT_EQ(limits->front().resource, RLIMIT_NOFILE);
  EXPECT_EQ(limits->front().limits.rlim_max, 100u);
  spec.ulimits = {{"fingers", 10}};
  ASSERT_FALSE(ulimits_of(spec));
  EXPECT_NE(ulimits_of(spec).error().message.find("fingers"), std::string::npos);
}

TEST(LaunchRequest, AsManyGpusAsTheHostHas) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to make device nodes";
  const testing::TempDir dev;
  const auto find = [&](const std::string& gpus) { return gpu_devices(gpus, dev.path().string()); };
  EXPECT_EQ(find("all").error().code, Code::Unsupported);
  EXPECT_TRUE(find("")->empty());
  for (const auto& [name, number] : {std::pair{"nvidia0", 0u}, {"nvidia1", 1u}, {"nvidiactl", 255u}}) {
    ASSERT_EQ(::mknod((dev.path() / name).c_str(), S_IFCHR | 0600, makedev(195, number)), 0);
  }
  ASSERT_TRUE(find("all"));
  EXPECT_EQ(find("all")->size(), 3u);
  EXPECT_EQ(find("1")->size(), 2u);  // one card, and what all cards share
  EXPECT_EQ(find("1")->front().name, "nvidia0");
  EXPECT_EQ(find("3").error().code, Code::Unsupported);
  for (const char* nonsense : {"0", "-1", "some", "1.5"}) {
    EXPECT_EQ(find(nonsense).error().code, Code::InvalidRequest) << nonsense;
  }
}

}  // namespace
}  // namespace osb::sandboxd
