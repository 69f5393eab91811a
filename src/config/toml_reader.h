#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::config {

// A TOML document, read section by section. The first error wins and names file, line, section and key: "server.toml:3:
// [server] port: expected ...". Values are never repeated: they may be secret. Reading is lenient as the contract says:
// numbers may be strings of digits, booleans words such as "yes"; strings are strings.
class TomlReader {
 public:
  static Result<TomlReader> parse(std::string_view text, const std::filesystem::path& source);
  ~TomlReader();
  TomlReader(TomlReader&&) noexcept;

  // Rejects a top-level section that is something else: it would be ignored as a whole.
  void expect_table(std::string_view name);

  // A key of the document: the section that holds it, "" for the top level. A table is named by its parent and itself.
  struct Name {
    std::string section, key;
  };
  // Every key, also of tables in tables; `is_value`: tables that are the value of a key, so that theirs are none.
  std::vector<Name> names(const std::function<bool(const Name&)>& is_value) const;
  // Whether the key has this value, given as TOML, or is absent.
  bool is(std::string_view section, std::string_view key, std::string_view value) const;

  // "ingress.gateway" is a table, or dotted keys in its parent.
  bool has(std::string_view section) const;
  bool has(std::string_view section, std::string_view key) const;

  std::optional<std::string> string(std::string_view section, std::string_view key);
  std::optional<std::int64_t> integer(std::string_view section, std::string_view key, std::int64_t min,
                                      std::int64_t max = std::numeric_limits<std::int64_t>::max());
  std::optional<double> number(std::string_view section, std::string_view key);
  std::optional<bool> boolean(std::string_view section, std::string_view key);
  std::optional<std::vector<std::string>> strings(std::string_view section, std::string_view key);
  std::optional<std::map<std::string, std::string>> string_map(std::string_view section, std::string_view key);
  // One map per table of an array of tables; members that are no strings are errors.
  std::vector<std::map<std::string, std::string>> tables(std::string_view section, std::string_view key);

  // The same for members that are strings, numbers or arrays of strings: each as a list of texts.
  std::vector<std::map<std::string, std::vector<std::string>>> tables_of_lists(std::string_view section,
                                                                               std::string_view key);

  // Reports an error of a section beyond types. Without a key the section itself is meant.
  void reject(std::string_view section, std::string_view key, std::string_view why);
  // Notes that a key has no effect, or not the expected one; with its place, as errors.
  void warn(std::string_view section, std::string_view key, std::string_view why);
  const std::vector<std::string>& warnings() const;
  bool failed() const;
  Result<void> finish() const;

 private:
  template <typename F>
  void for_each_table(std::string_view section, std::string_view key, F take);

  struct Impl;
  explicit TomlReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace osb::config
