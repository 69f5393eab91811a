#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace osb::http {

// A field such as Content-Type or Content-Disposition: a value and its parameters.
struct ParameterizedValue {
  std::string value;                                            // "form-data", as written
  std::vector<std::pair<std::string, std::string>> parameters;  // names as written, values unquoted

  // First parameter of that name (without case), or nullptr.
  const std::string* find(std::string_view name) const;
};

// Takes what clients really send: values that should be quoted but are not, and backslashes in quoted file names that
// are no escapes (only \" and \\ are). Nothing for an unclosed quote or a parameter without '='.
std::optional<ParameterizedValue> parse_parameters(std::string_view field);

// RFC 5987 (filename*): charset'language'percent-encoded, for UTF-8 and ISO-8859-1, as UTF-8. Nothing if it is neither.
std::optional<std::string> decode_extended_value(std::string_view text);

}  // namespace osb::http
