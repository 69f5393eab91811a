#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace osb::http {

// ASCII case-insensitive comparison, as field names and many values want it. Inline, because most differ in length.
bool same_letters(std::string_view a, std::string_view b);  // of equal length
inline bool iequals(std::string_view a, std::string_view b) { return a.size() == b.size() && same_letters(a, b); }

// Without the optional white space (RFC 9110: blanks and tabs) at both ends.
std::string_view trim_ows(std::string_view text);

// Header fields in the order they came; names compare without case; repeated fields stay apart (Set-Cookie).
class Headers {
 public:
  struct Field {
    std::string name;
    std::string value;
  };

  Headers() = default;
  Headers(std::initializer_list<Field> fields) : fields_(fields) {}

  // First value of `name`, or nullptr.
  const std::string* find(std::string_view name) const;
  // First value of `name`, or empty.
  std::string_view get(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  std::size_t count(std::string_view name) const;

  void add(std::string name, std::string value) { fields_.emplace_back(std::move(name), std::move(value)); }
  // Replaces every field of that name by one.
  void set(std::string_view name, std::string value);
  void remove(std::string_view name);
  // Removes the fields for which `gone` is true.
  template <typename Predicate>
  void remove_if(Predicate gone) {
    std::erase_if(fields_, gone);
  }

  // True if a comma-separated field such as Connection lists `token` in any of its lines.
  bool has_token(std::string_view name, std::string_view token) const;

  // Calls `change` with each value.
  template <typename Change>
  void change_values(Change change) {
    for (Field& field : fields_) change(field.value);
  }
  // Overwrites the values with zeros.
  void wipe();

  bool empty() const { return fields_.empty(); }
  std::size_t size() const { return fields_.size(); }
  void clear() { fields_.clear(); }
  void reserve(std::size_t n) { fields_.reserve(n); }
  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }

 private:
  std::vector<Field> fields_;
};

}  // namespace osb::http
