#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::policy {

struct TomlPlace {
  unsigned line = 0, column = 0;  // from 1; 0: unknown

  bool operator==(const TomlPlace&) const = default;
};

struct TomlMember;

// A value of a TOML file with its place. Booleans, floats and dates are Kind::Other: no file here uses them.
struct TomlValue {
  enum class Kind : std::uint8_t { String, Integer, Array, Table, Other };

  Kind kind = Kind::Other;
  TomlPlace place;
  std::string text;                 // of a string
  std::int64_t number = 0;          // of an integer
  std::vector<TomlValue> items;     // of an array
  std::vector<TomlMember> members;  // of a table, in the order of the file

  const TomlValue* find(std::string_view key) const;
};

struct TomlMember {
  std::string key;
  TomlPlace place;  // of the key
  TomlValue value;
};

// A parsed file. Errors of its readers name the place: "base.toml:3:5: ...". The text may come from strangers: it is
// refused when it is larger than 1 MiB, has a line above 4,096 bytes (a dotted key nests a table for every dot) or
// nests deeper than 16.
class TomlFile {
 public:
  // `source` is the file's name in errors.
  static Result<TomlFile> parse(std::string_view text, std::string source);

  const TomlValue& root() const { return root_; }
  const std::string& source() const { return source_; }

  Failure refuse(TomlPlace place, const std::string& why) const;

  // Refuses members of a table that are not in `known` and names the nearest one.
  Result<void> check_keys(const TomlValue& table, const std::vector<std::string_view>& known) const;

  // A member of the given kind.
  Result<std::string> string(const TomlValue& table, std::string_view key) const;       // "" when absent
  Result<const TomlValue*> table(const TomlValue& parent, std::string_view key) const;  // nullptr when absent
  Result<const std::vector<TomlValue>*> array(const TomlValue& parent, std::string_view key, TomlValue::Kind of,
                                              std::string_view what) const;  // empty when absent, never nullptr

 private:
  TomlFile(TomlValue root, std::string source) : root_(std::move(root)), source_(std::move(source)) {}

  TomlValue root_;
  std::string source_;
};

std::string place_text(const std::string& source, TomlPlace place);  // "base.toml:3:5"

// "; did you mean x?", or "" when no candidate is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace osb::policy
