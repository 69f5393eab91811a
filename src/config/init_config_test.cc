#include "config/init_config.h"

#include <algorithm>
#include <fstream>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "config/settings.h"
#include "support/temp_dir.h"

namespace osb::config {
namespace {

const Environment kHome{{{"HOME", "/home/me"}}};

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(InitConfig, EveryExampleLoads) {
  struct Row {
    std::string_view name;
    RuntimeType type;
    std::string_view host;
  };
  const Row rows[] = {
      {"native", RuntimeType::Native, "127.0.0.1"},    {"docker", RuntimeType::Docker, "127.0.0.1"},
      {"docker-zh", RuntimeType::Docker, "127.0.0.1"}, {"docker-deploy", RuntimeType::Docker, "127.0.0.1"},
      {"k8s", RuntimeType::Kubernetes, "0.0.0.0"},     {"k8s-zh", RuntimeType::Kubernetes, "0.0.0.0"}};
  for (const std::string_view name : example_names())
    EXPECT_NE(std::ranges::find(rows, name, &Row::name), std::end(rows)) << name;
  for (const auto& row : rows) {
    const auto text = example_config(row.name);
    ASSERT_TRUE(text) << row.name;
    const auto config = parse_server_config(*text, row.name, kHome);
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->runtime.type, row.type);
    EXPECT_EQ(config->server.host, row.host);
    EXPECT_EQ(config->server.max_sandbox_timeout, std::chrono::seconds(86400));
    EXPECT_TRUE(config->server.api_key.empty()) << "no key that is public";
  }
  EXPECT_EQ(example_config("podman").error().code, Code::NotFound);
}

TEST(InitConfig, TheSkeletonHasEverySectionAndLoads) {
  const auto text = example_config("");
  ASSERT_TRUE(text);
  for (const std::string_view section :
       {"[server]", "[log]", "[runtime]", "[native]", "[admission]", "[docker]", "[egress]", "[kubernetes]",
        "[agent_sandbox]", "[ingress]", "[ingress.gateway]", "[ingress.gateway.route]", "[ingress.secure_access]",
        "[storage]", "[store]", "[secure_runtime]", "[renew_intent]"}) {
    EXPECT_NE(text->find(section), std::string_view::npos) << section;
  }
  const auto config = parse_server_config(*text, "skeleton", kHome);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->runtime.type, RuntimeType::Native);
}

TEST(InitConfig, EveryKeyIsDocumented) {
  for (const SettingText& each : server_settings()) EXPECT_FALSE(each.about.empty()) << each.section << " " << each.key;
}

TEST(InitConfig, WritesTheFileOnceForItsOwner) {
  const testing::TempDir directory;
  const auto path = directory / "a" / "b" / "server.toml";
  ASSERT_TRUE(write_example_config(path, "docker", false));
  EXPECT_EQ(content(path), *example_config("docker"));
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  const auto again = write_example_config(path, "k8s", false);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::Conflict);
  EXPECT_NE(again.error().message.find("--force"), std::string::npos);
  EXPECT_EQ(content(path), *example_config("docker"));
  ASSERT_TRUE(write_example_config(path, "k8s", true));
  EXPECT_EQ(content(path), *example_config("k8s"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path.parent_path()), {}), 1) << "nothing else is left";
  EXPECT_FALSE(write_example_config(directory / "x", "podman", true));
  EXPECT_FALSE(std::filesystem::exists(directory / "x"));
}

}  // namespace
}  // namespace osb::config
