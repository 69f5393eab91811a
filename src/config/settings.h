#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/server_config.h"
#include "config/setting_text.h"
#include "config/toml_reader.h"

namespace osb::config {

// The effect of a reload on a changed key.
enum class Reload { Live, Restart, Ignored };

// The values that a key may have, beyond its type.
struct Allowed {
  std::int64_t min = 0, max = std::numeric_limits<int>::max();  // of an integer
  bool empty = true;                                            // also an empty string
  bool absolute = false;                                        // only an absolute path
  bool positive = false;                                        // of a number: not 0
  std::vector<std::string_view> choices = {};
  void (*fix)(std::string&) = nullptr;                    // puts a string into its one spelling
  std::string_view (*fault)(std::string_view) = nullptr;  // why a string is wrong; ""
  std::string_view written = "";                          // the value in the example file, if not the default
  bool security = false;  // a backend that does not know the key refuses it instead of warning
};

// Every key of the server's file is declared once, by declare_server_settings: its place, type, default, limits,
// whether a reload takes it over, and its documentation. A Settings walks over the declarations, either to read a file
// into the fields or to list them.
class Settings {
 public:
  struct Row {
    SettingText text;
    Reload reload = Reload::Restart;
    bool whole = false;     // changes are named by section
    void* field = nullptr;  // null: another row compares its field too
    bool (*same)(const void*, const void*) = nullptr;
    void (*copy)(void* to, const void* from) = nullptr;
  };

  static Settings reading(TomlReader& reader, const Environment& environment) { return {&reader, &environment}; }
  static Settings listing() { return {nullptr, nullptr}; }

  // Begins a section. `whole`: changes are named by section; `commented`: a comment in the example file.
  void section(std::string_view name, bool whole = false, bool commented = false);
  // The section's keys mean nothing to other backends than this one; `in_use` is the one that the file chooses.
  void only_for(RuntimeType backend, RuntimeType in_use) { only_ = {backend, in_use}; }

  template <typename T>
  void key(std::string_view name, T& field, Reload reload, std::string_view about, const Allowed& allowed = {}) {
    if (reader_ != nullptr) {
      check_backend(name, text_of(field), allowed.security);
      return read(name, field, allowed);
    }
    add(name, reload, about, text_of(field), allowed.written);
    holds(field);
  }
  // A key that has no field of its own: read_other_keys reads it.
  void other(std::string_view name, std::string_view about, std::string_view fallback, std::string_view written = "",
             Reload reload = Reload::Restart);
  // The key before is in this field.
  template <typename T>
  void holds(T& field) {
    if (reader_ != nullptr) return;
    Row& row = rows_.back();
    row.field = &field;
    row.same = [](const void* a, const void* b) { return *static_cast<const T*>(a) == *static_cast<const T*>(b); };
    row.copy = [](void* to, const void* from) { *static_cast<T*>(to) = *static_cast<const T*>(from); };
  }
  // A key that is checked and means nothing here.
  void old(std::string_view name, std::string_view about, const Allowed& allowed);
  // A key that newer servers no longer have: it warns.
  void removed(std::string_view name, std::string_view about);
  // A key of a part that this server does not have: every value but `fallback` is refused. `part` names it.
  void missing(std::string_view name, std::string_view about, std::string_view fallback, std::string_view part);

  const std::vector<Row>& rows() const { return rows_; }

 private:
  Settings(TomlReader* reader, const Environment* environment) : reader_(reader), environment_(environment) {}
  void check_backend(std::string_view name, const std::string& fallback, bool security);
  void add(std::string_view name, Reload reload, std::string_view about, std::string fallback,
           std::string_view written);

  void read(std::string_view key, std::string& field, const Allowed& allowed);
  void read(std::string_view key, std::filesystem::path& field, const Allowed& allowed);
  void read(std::string_view key, bool& field, const Allowed& allowed);
  void read(std::string_view key, int& field, const Allowed& allowed);
  void read(std::string_view key, std::int64_t& field, const Allowed& allowed);
  void read(std::string_view key, std::uint16_t& field, const Allowed& allowed);
  void read(std::string_view key, double& field, const Allowed& allowed);
  void read(std::string_view key, std::chrono::seconds& field, const Allowed& allowed);
  void read(std::string_view key, std::chrono::duration<double>& field, const Allowed& allowed);
  void read(std::string_view key, std::optional<std::chrono::seconds>& field, const Allowed& allowed);
  void read(std::string_view key, std::optional<std::int64_t>& field, const Allowed& allowed);
  void read(std::string_view key, RuntimeType& field, const Allowed& allowed);
  void read(std::string_view key, std::vector<std::string>& field, const Allowed& allowed);
  void read(std::string_view key, std::map<std::string, std::string>& field, const Allowed& allowed);

  // The value as TOML.
  static std::string text_of(const std::string& value) { return toml_string(value); }
  static std::string text_of(const std::filesystem::path& value) { return toml_string(value.string()); }
  static std::string text_of(bool value) { return value ? "true" : "false"; }
  static std::string text_of(std::int64_t value) { return std::to_string(value); }
  static std::string text_of(int value) { return std::to_string(value); }
  static std::string text_of(std::uint16_t value) { return std::to_string(value); }
  static std::string text_of(double value);
  static std::string text_of(std::chrono::seconds value) { return std::to_string(value.count()); }
  static std::string text_of(std::chrono::duration<double> value) { return text_of(value.count()); }
  static std::string text_of(std::optional<std::chrono::seconds> value) { return value ? text_of(*value) : ""; }
  static std::string text_of(std::optional<std::int64_t> value) { return text_of(value.value_or(0)); }
  static std::string text_of(RuntimeType value) { return toml_string(to_string(value)); }
  static std::string text_of(const std::vector<std::string>& value);
  static std::string text_of(const std::map<std::string, std::string>& value);

  TomlReader* reader_;
  const Environment* environment_;
  std::string section_;
  bool whole_ = false, commented_ = false;
  std::optional<std::pair<RuntimeType, RuntimeType>> only_;
  std::vector<Row> rows_;
};

void declare_server_settings(Settings& settings, ServerConfig& config);
// Its second part: [kubernetes], [agent_sandbox], [ingress] and [secure_runtime].
void declare_cluster_settings(Settings& settings, ServerConfig& config);
void declare_upstream_proxy(Settings& settings, UpstreamProxySection& section);

// Keys of parts that do not exist yet, for their places in the two above.
void declare_missing_kubernetes(Settings& settings);
void declare_missing_parts(Settings& settings);

// Refuses every key and section of the file that no declaration knows, and names the nearest known one. With [server]
// unknown_keys = "warn" it warns instead.
void check_unknown_keys(TomlReader& reader);

// All keys with their defaults.
std::vector<SettingText> server_settings();

}  // namespace osb::config
