#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "config/setting_text.h"
#include "sandboxd/disk/writable_disk.h"
#include "sandboxd/image/image_service.h"
#include "sandboxd/network/network_config.h"
#include "sandboxd/sandbox/sandbox_config.h"
#include "sandboxd/volume/volume_store.h"

namespace osb::sandboxd {

// Of network policies.
struct EgressConfig {
  std::string program;  // empty: opensandbox-egress next to sandboxd
  std::string rules_directory = "/etc/opensandbox/egress";
  std::vector<std::string> resolvers;  // "10.0.0.2:53"; empty: the host's
  std::string otlp_endpoint;           // "http://collector:4318"; empty: none, also of the next
  std::uint32_t otlp_interval_seconds = 60;
  std::string deny_webhook;
  bool log_names = false;
  std::string upstream_ca;     // a file with certificates besides the machine's own
  std::string upstream_proxy;  // "http://proxy:3128"; empty: none, also of the next
  std::string upstream_proxy_authorization;
  bool scrub_bodies = false;
  std::vector<std::string> pins;  // "HOST=ADDRESS"
};

// sandboxd's own settings. They belong to root: the server is trusted with sandboxes, not with the host, so every
// setting that opens a part of the host to sandboxes is here.
struct DaemonConfig {
  std::string socket = "/run/opensandbox/sandboxd.sock";
  std::string group = "opensandbox";  // whose members may use the socket besides root; need not exist
  std::string cgroup_parent = "opensandbox";
  LogLevel log_level = LogLevel::Info;
  LogFormat log_format = LogFormat::Text;
  SandboxConfig sandbox;
  NetworkConfig network;
  ImageServiceConfig images;
  VolumeConfig volumes;
  DiskConfig disk;
  EgressConfig egress;
};

// A TOML file over the defaults; docs/sandboxd-settings.md lists the keys. Code::InvalidRequest names section and key,
// also of an unknown key: a misspelt limit must not pass for a set one.
Result<DaemonConfig> parse_config(std::string_view toml, const std::string& name);
// A missing file is an error only if `required`.
Result<DaemonConfig> load_config(const std::string& path, bool required);

// All keys with their defaults; scripts/settings makes docs/sandboxd-settings.md and deploy/sandboxd/sandboxd.toml of
// them.
std::vector<config::SettingText> daemon_settings();
std::string settings_page();
std::string settings_example();

// Directories that follow from others: images, volumes.
void complete_config(DaemonConfig& config);
// The places and limits that follow from the disk, after the ceilings. Code::Unsupported: a setting wants limits that
// the disk cannot have.
Result<void> use_disk(DaemonConfig& config, const WritableDisk& disk);

struct CommandLine {
  enum class Action { Serve, Check, ShowHelp, ShowVersion, PrintSettings, PrintExample };
  Action action = Action::Serve;
  bool json = false;  // check --json
  std::string config_path = "/etc/opensandbox/sandboxd.toml";
  bool config_given = false;
  // Beat the file.
  std::string state_directory, run_directory, socket, execd;
};
// Code::InvalidRequest: a command line that makes no sense.
Result<CommandLine> parse_command_line(const std::vector<std::string>& args);
const char* usage();

}  // namespace osb::sandboxd
