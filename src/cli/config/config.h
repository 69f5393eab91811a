#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/problem.h"

namespace osb::cli {

// Environment variables by name; tests pass their own.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
Environment process_environment();

// The root options.
struct Flags {
  std::optional<std::string> api_key, domain, protocol, config, profile;
  std::optional<std::int64_t> request_timeout;
  std::optional<bool> use_server_proxy;
  bool verbose = false, no_color = false, version = false;
};

// A key that was found but is not sent: it belongs to another server.
struct WithheldKey {
  std::string source;  // "profile 'local' in FILE"
  std::string domain;  // of its server
};

// The server's domain where nothing names one.
inline constexpr const char* kDefaultDomain = "localhost:8080";

struct Config {
  std::optional<std::string> api_key, domain;
  std::optional<std::string> key_domain;  // the server that the key belongs to; nothing: any
  std::optional<WithheldKey> withheld;
  std::string protocol = "http";
  std::int64_t request_timeout = 30;  // seconds
  bool use_server_proxy = false;
  bool color = true;
  std::optional<std::string> default_image, default_timeout;
  std::optional<std::string> profile;
};

// --config, else ~/.opensandbox/config.toml. It need not exist.
std::filesystem::path config_path(const Flags& flags, const Environment& environment);

// First hit wins: root option, environment, the profile's table, the file's tables, the default. A key belongs to the
// domain that stands beside it (in the environment, the profile, the file) and is withheld from any other server. A
// file that is not TOML and a profile that is not there are errors.
Expected<Config> resolve_config(const Flags& flags, const Environment& environment, const std::filesystem::path& path);

// The advice for a server that wants a key, when one was withheld; empty: none was.
std::string withheld_hint(const Config& config);

// Up to four characters all stars, else the first and last two shown.
std::string mask_key(const std::string& key);

}  // namespace osb::cli
