#pragma once

#include <span>
#include <string>
#include <string_view>

namespace osb::config {

// One key of a configuration file as people read it. Example files and references are made of these.
struct SettingText {
  std::string section, key;
  std::string fallback;    // the default as TOML; empty: not set
  std::string written;     // the value in the example file; empty: the default
  std::string about;       // sentences; Markdown
  bool live = false;       // a reload takes it over
  bool commented = false;  // the example file has it as a comment
  bool old = false;        // accepted for old files only: not in the example file
};

// A TOML file with every key, below `head`.
std::string example_file(std::string_view head, std::span<const SettingText> settings);

// A Markdown page with one table per section, below `head`. `reloads`: with a column for what a reload takes over.
std::string reference_page(std::string_view head, std::span<const SettingText> settings, bool reloads);

// A TOML string.
std::string toml_string(std::string_view text);

}  // namespace osb::config
