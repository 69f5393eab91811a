#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "base/error.h"

namespace osb::api {

namespace json = boost::json;

struct JsonLimits {
  std::size_t max_depth = 64;
  bool ignore_trailing = false;  // execd reads the first value of a body and ignores what follows
  // For the value and the parser's own memory; it outlives the value. Bodies with secrets have one that forgets.
  json::storage_ptr storage = {};
};

// Text into a value. Errors give the byte offset; text that is not UTF-8 is one. Of equal keys the last wins.
Result<json::value> parse_json(std::string_view text, const JsonLimits& limits = {});

// The strings that lifecycle requests and query parameters may use for a bool: true, 1, yes, on, t, y and their
// opposites, in any case.
std::optional<bool> parse_lax_bool(std::string_view text);

// One more step of a JSON pointer (RFC 6901): "" and "a/b" give "/a~1b".
std::string join_pointer(std::string_view pointer, std::string_view key);

struct ReadOptions {
  bool lax = false;              // integers: "120", 60.0; bools: see parse_lax_bool, and 1 and 0
  bool ignore_case = false;      // keys in any case; of several spellings the last that is not null counts
  bool snake_case = false;       // mount_path where the field is mountPath
  std::string_view reason = {};  // for Error::reason; a string that lives as long as the program
};

// How the two products read bodies, as their contracts say.
inline constexpr ReadOptions kExecdReading{.ignore_case = true, .reason = "INVALID_REQUEST_BODY"};
inline constexpr ReadOptions kLifecycleReading{.lax = true, .snake_case = true};

enum class NullEntry { Skip, Refuse };

// Takes the fields out of a JSON object. A wrong field is named by its JSON pointer ("/context/id: expected a
// string"). The first error wins: calls after it give empty values, and finish() returns it, so a decoder is a plain
// list of fields with one check at its end. A null field is an absent one. Unknown fields are ignored. The value must
// outlive the reader.
class ObjectReader {
 public:
  ObjectReader(const json::value& value, ReadOptions options, std::string pointer = "");
  ObjectReader(const ObjectReader&) = delete;
  ObjectReader& operator=(const ObjectReader&) = delete;

  std::optional<std::string> optional_string(std::string_view name);
  std::string required_string(std::string_view name);  // present and not empty

  static constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::optional<std::int64_t> optional_int64(std::string_view name, std::int64_t min = kMin, std::int64_t max = kMax);
  std::int64_t required_int64(std::string_view name, std::int64_t min = kMin, std::int64_t max = kMax);

  std::optional<bool> optional_bool(std::string_view name);

  // Absent and empty differ: some responses echo what was given.
  std::optional<std::map<std::string, std::string>> string_map(std::string_view name, NullEntry = NullEntry::Skip);
  std::optional<std::vector<std::string>> string_list(std::string_view name);

  // Calls `read` with a reader for the field's object, or for each object of its array. False when it is absent.
  bool object(std::string_view name, const std::function<void(ObjectReader&)>& read);
  bool array(std::string_view name, const std::function<void(ObjectReader&)>& read);

  // For a body that is itself a map of objects: each key in the order of the text.
  void for_each_object(const std::function<void(const std::string& key, ObjectReader&)>& read);

  // The field itself, nullptr when absent or null.
  const json::value* find(std::string_view name) const;

  // Every field but these is an error. Their forms with underscores or in another case
  // count where the options say so.
  void refuse_unknown(std::initializer_list<std::string_view> known);

  // For errors that a decoder finds beyond types: reject("gid", "needs uid"). An empty name means the object itself.
  void reject(std::string_view name, std::string_view why);

  bool failed() const;
  const std::string& pointer() const { return pointer_; }
  Result<void> finish() const;

 private:
  ObjectReader(const json::value& value, std::string pointer, ObjectReader& parent);
  void bind(const json::value& value);
  void reject_at(const std::string& pointer, std::string_view why);
  ObjectReader& root() { return parent_ != nullptr ? parent_->root() : *this; }
  const ObjectReader& root() const { return parent_ != nullptr ? parent_->root() : *this; }

  const json::object* object_ = nullptr;  // nullptr when the value was something else
  ReadOptions options_;
  std::string pointer_;
  ObjectReader* parent_ = nullptr;
  std::optional<Error> error_;  // only the root's is used
};

// For a body that is itself an array of objects.
Result<void> read_array(const json::value& value, const ReadOptions& options,
                        const std::function<void(ObjectReader&)>& read);

}  // namespace osb::api
