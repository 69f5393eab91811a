#include "http/headers.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace osb::http {

std::string_view trim_ows(std::string_view text) { return trimmed(text, " \t"); }

bool same_letters(std::string_view a, std::string_view b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

const std::string* Headers::find(std::string_view name) const {
  for (const Field& field : fields_) {
    if (iequals(field.name, name)) return &field.value;
  }
  return nullptr;
}

std::string_view Headers::get(std::string_view name) const {
  const std::string* value = find(name);
  return value ? std::string_view(*value) : std::string_view();
}

std::size_t Headers::count(std::string_view name) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(fields_, [&](const Field& field) { return iequals(field.name, name); }));
}

void Headers::set(std::string_view name, std::string value) {
  const std::string wanted(name);  // may be a view of one of the fields
  const auto same = [&](const Field& field) { return iequals(field.name, wanted); };
  const auto first = std::ranges::find_if(fields_, same);
  if (first == fields_.end()) {
    fields_.push_back({wanted, std::move(value)});
    return;
  }
  first->value = std::move(value);
  fields_.erase(std::remove_if(first + 1, fields_.end(), same), fields_.end());
}

void Headers::remove(std::string_view name) {
  const std::string gone(name);  // may be a view of one of the fields
  std::erase_if(fields_, [&](const Field& field) { return iequals(field.name, gone); });
}

void Headers::wipe() {
  for (Field& field : fields_) ::explicit_bzero(field.value.data(), field.value.size());
}

bool Headers::has_token(std::string_view name, std::string_view token) const {
  for (const Field& field : fields_) {
    if (!iequals(field.name, name)) continue;
    std::string_view rest = field.value;
    while (true) {
      const auto comma = rest.find(',');
      if (iequals(trim_ows(rest.substr(0, comma)), token)) return true;
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return false;
}

}  // namespace osb::http
