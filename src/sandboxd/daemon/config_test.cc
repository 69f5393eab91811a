#include "sandboxd/daemon/config.h"

#include <gtest/gtest.h>

namespace osb::sandboxd {
namespace {

TEST(DaemonConfig, DefaultsAreClosed) {
  const auto config = parse_config("", "x.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->sandbox.allow_host_network);
  EXPECT_TRUE(config->volumes.allowed_host_paths.empty());
  EXPECT_TRUE(config->images.registries.insecure.empty());
  EXPECT_TRUE(config->images.registries.private_places.empty());
  EXPECT_TRUE(config->images.allowed_directories.empty());
  EXPECT_EQ(config->volumes.directory, "/var/lib/opensandbox/volumes");
}

TEST(DaemonConfig, EveryDeclaredValueIsAccepted) {
  for (const config::SettingText& each : daemon_settings()) {
    const std::string& value = each.written.empty() ? each.fallback : each.written;
    const auto config = parse_config("[" + each.section + "]\n" + each.key + " = " + value + "\n", "x.toml");
    EXPECT_TRUE(config) << config.error().message;
    EXPECT_FALSE(each.about.empty()) << each.key;
  }
  EXPECT_TRUE(parse_config(settings_example(), "x.toml"));
}

TEST(DaemonConfig, EverySectionIsRead) {
  const auto config = parse_config(R"(
[daemon]
state_directory = "/srv/sandboxes"
log_format = "json"
[sandbox]
allow_host_network = true
allowed_host_paths = ["/data"]
host_ids = "foreign"
default_pids = 100
[network]
subnet = "10.1.0.0/16"
dns = ["10.0.0.53"]
blocked = ["10.2.0.0/16"]
allowed_networks = ["192.168.1.0/24"]
allowed_metadata = ["169.254.169.254/32"]
[images]
keep_bytes = 1000
insecure_registries = ["registry:5000"]
private_registries = ["registry.internal", "127.0.0.1:*"]
)",
                                   "x.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->images.directory, "/srv/sandboxes/images");
  EXPECT_EQ(config->log_format, LogFormat::Json);
  EXPECT_TRUE(config->sandbox.allow_host_network);
  EXPECT_EQ(config->volumes.host_ids, HostIds::Foreign);
  EXPECT_EQ(config->sandbox.default_pids, 100u);
  EXPECT_EQ(format_subnet(config->network.subnet), "10.1.0.0/16");
  EXPECT_EQ(config->network.blocked, std::vector<Subnet>{parse_subnet("10.2.0.0/16").value()});
  EXPECT_EQ(config->network.allowed_networks, std::vector<Subnet>{parse_subnet("192.168.1.0/24").value()});
  EXPECT_EQ(config->network.allowed_metadata, std::vector<Subnet>{parse_subnet("169.254.169.254/32").value()});
  EXPECT_FALSE(config->network.allow_private_networks);
  EXPECT_EQ(config->sandbox.dns, std::vector<std::string>{"10.0.0.53"});
  ASSERT_EQ(config->images.registries.insecure.size(), 1u);
  EXPECT_EQ(config->images.registries.insecure[0].port, 5000);
  ASSERT_EQ(config->images.registries.private_places.size(), 2u);
  EXPECT_TRUE(config->images.registries.private_places[1].any_port);
}

TEST(DaemonConfig, LimitsFollowFromTheDisk) {
  constexpr std::uint64_t kGiB = 1 << 30;
  struct Case {
    const char* settings;
    WritableDisk disk;
    std::uint64_t sandbox, volume;
  };
  const DiskTrees quotas(DiskMeans::ProjectQuota), none;
  const Case cases[] = {
      {"", {"/disk", quotas, 100 * kGiB}, 10 * kGiB, 10 * kGiB},
      {"", {"/disk", quotas, 8 * kGiB}, 2 * kGiB, 2 * kGiB},
      {"", {"/disk", none, 100 * kGiB}, 0, 0},
      {"[sandbox]\ndefault_disk_bytes = 0\n[disk]\nvolume_bytes = 5", {"/disk", quotas, 100 * kGiB}, 0, 5},
  };
  for (const Case& each : cases) {
    auto config = parse_config(each.settings, "x.toml");
    ASSERT_TRUE(config) << config.error().message;
    ASSERT_TRUE(use_disk(*config, each.disk));
    EXPECT_EQ(config->sandbox.default_disk_bytes, each.sandbox) << each.settings;
    EXPECT_EQ(config->volumes.volume_bytes, each.volume) << each.settings;
    EXPECT_EQ(config->volumes.directory, "/disk/volumes");
    EXPECT_EQ(config->sandbox.reserve.places.size(), 2u);
    EXPECT_EQ(config->sandbox.tree("x"), each.disk.trees.limits() ? "/disk/sandboxes/x/tree" : "/disk/sandboxes/x");
  }
  auto capped = parse_config("[sandbox]\nmax_disk_bytes = 7", "x.toml");
  ASSERT_TRUE(use_disk(*capped, {"/disk", quotas, 100 * kGiB}));
  EXPECT_EQ(capped->sandbox.default_disk_bytes, 7u);
  for (const char* amount : {"8", "0"}) {
    auto above = parse_config("[sandbox]\nmax_disk_bytes = 7\ndefault_disk_bytes = " + std::string(amount), "x.toml");
    const auto result = use_disk(*above, {"/disk", quotas, 100 * kGiB});
    ASSERT_FALSE(result) << amount;
    EXPECT_TRUE(result.error().message.ends_with("is above max_disk_bytes = 7")) << result.error().message;
  }
  auto whole = parse_config("[sandbox]\nmax_disk_bytes = 200000000000\ndefault_disk_bytes = 0", "x.toml");
  EXPECT_TRUE(use_disk(*whole, {"/disk", quotas, 100 * kGiB})) << "the disk itself is smaller";
  auto config = parse_config("[disk]\nvolume_bytes = 5", "x.toml");
  ASSERT_TRUE(config);
  const auto refused = use_disk(*config, {"/disk", none, kGiB});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.starts_with("[disk] volume_bytes: the file system of /disk has neither"));
}

TEST(DaemonConfig, RuntimesHaveNamesPathsAndArguments) {
  const auto config = parse_config(R"(
[sandbox]
default_runtime = "walled"
[runtimes]
walled = ["/opt/gvisor/runsc", "--platform=kvm"]
kata = "/opt/kata/bin/kata-runtime"
)",
                                   "x.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->sandbox.default_runtime, "walled");
  EXPECT_EQ(config->sandbox.runtimes.at("walled").path, "/opt/gvisor/runsc");
  EXPECT_EQ(config->sandbox.runtimes.at("walled").arguments, std::vector<std::string>{"--platform=kvm"});
  EXPECT_EQ(config->sandbox.runtimes.at("kata").path, "/opt/kata/bin/kata-runtime");
  EXPECT_TRUE(config->sandbox.runtimes.at("kata").arguments.empty());
  EXPECT_EQ(parse_config("", "x.toml")->sandbox.default_runtime, "native");
}

TEST(DaemonConfig, RuntimesThatCannotBeAreRefused) {
  const struct {
    const char* text;
    const char* says;
  } rows[] = {
      {"[runtimes]\nkata = \"kata-runtime\"", "[runtimes] kata: expected an absolute path"},
      {"[runtimes]\nkata = []", "[runtimes] kata: expected an absolute path"},
      {"[runtimes]\nkata = 5", "[runtimes] kata: expected a list of strings"},
      {"[runtimes]\nnative = \"/bin/true\"", "[runtimes] native: that is the name"},
      {"[sandbox]\ndefault_runtime = \"kata\"", "[sandbox] default_runtime: 'kata' is not in [runtimes]"},
  };
  for (const auto& row : rows) {
    const auto config = parse_config(row.text, "x.toml");
    ASSERT_FALSE(config) << row.text;
    EXPECT_NE(config.error().message.find(row.says), std::string::npos) << config.error().message;
  }
}

TEST(DaemonConfig, ErrorsAreNamedWithTheirSection) {
  const struct {
    const char* text;
    const char* names;
  } rows[] = {
      {"[sandbox]\nallow_host_netwrok = true", "[sandbox] allow_host_netwrok"},
      {"[sandbox]\nallow_host_network = 1", "[sandbox] allow_host_network"},
      {"[sandbox]\nallowed_host_paths = [\"data\"]", "[sandbox] allowed_host_paths"},
      {"[sandbox]\ndefault_pids = -5", "[sandbox] default_pids"},
      {"[network]\nsubnet = \"10.1.0.0\"", "[network] subnet"},
      {"[network]\ndns = [\"::1\"]", "[network] dns"},
      {"[daemon]\nlog_level = \"loud\"", "[daemon] log_level"},
      {"[nonsense]\na = 1", "[nonsense]"},
      {"daemon = 5", "[daemon]"},
      {"[daemon", "line 1"},
  };
  for (const auto& row : rows) {
    const auto config = parse_config(row.text, "x.toml");
    ASSERT_FALSE(config) << row.text;
    EXPECT_EQ(config.error().code, Code::InvalidRequest);
    EXPECT_NE(config.error().message.find(row.names), std::string::npos) << row.text << ": " << config.error().message;
    EXPECT_NE(config.error().message.find("x.toml"), std::string::npos);
  }
}

TEST(DaemonConfig, AMissingFileMattersOnlyIfItWasAskedFor) {
  EXPECT_TRUE(load_config("/does/not/exist.toml", false));
  EXPECT_FALSE(load_config("/does/not/exist.toml", true));
}

TEST(CommandLine, IsReadWithEqualsSignsAndWithout) {
  const auto line = parse_command_line({"--state-dir", "/a", "--run-dir=/b"});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->state_directory, "/a");
  EXPECT_EQ(line->run_directory, "/b");
  EXPECT_EQ(line->action, CommandLine::Action::Serve);
}

TEST(CommandLine, ThatMakesNoSenseIsRefused) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--nonsense"}, {"--json"}, {"--state-dir"}, {"--state-dir="}, {"run"}}) {
    EXPECT_FALSE(parse_command_line(args)) << args.front();
  }
  EXPECT_TRUE(parse_command_line({"check", "--json"})->json);
}

}  // namespace
}  // namespace osb::sandboxd
