#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/problem.h"

namespace osb::cli {

enum class ConfigKind { Text, Domain, Protocol, Seconds, Switch, Lifetime, Profile };

constexpr std::int64_t kMaxRequestTimeout = 86400;  // seconds

// A key of the config file: "connection.domain", or "profiles.NAME.domain" of a profile.
struct ConfigKey {
  std::string section;  // "connection", "profiles.NAME"
  std::string field;
  ConfigKind kind = ConfigKind::Text;
};

// An unknown name is an error that tells the nearest known one.
Expected<ConfigKey> find_config_key(std::string_view name);

// The value as the file shall have it. A value that is not allowed is an error that tells what is.
Expected<std::string> checked_value(const ConfigKey& key, std::string_view value);

// Letters, digits, '_' and '-': such a key needs no quotes in TOML.
bool is_bare_key(std::string_view text);

}  // namespace osb::cli
