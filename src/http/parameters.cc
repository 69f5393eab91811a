#include "http/parameters.h"

#include "http/headers.h"
#include "http/url.h"

namespace osb::http {

namespace {

// Reads a quoted string whose opening quote has been consumed, and removes it from `rest`.
std::optional<std::string> unquote(std::string_view& rest) {
  std::string out;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      rest.remove_prefix(i + 1);
      return out;
    }
    if (rest[i] == '\\' && i + 1 < rest.size() && (rest[i + 1] == '"' || rest[i + 1] == '\\')) ++i;
    out += rest[i];
  }
  return std::nullopt;
}

}  // namespace

const std::string* ParameterizedValue::find(std::string_view name) const {
  for (const auto& [key, value] : parameters) {
    if (iequals(key, name)) return &value;
  }
  return nullptr;
}

std::optional<ParameterizedValue> parse_parameters(std::string_view field) {
  ParameterizedValue out;
  const auto end = field.find(';');
  out.value = trim_ows(field.substr(0, end));
  std::string_view rest = end == std::string_view::npos ? std::string_view() : field.substr(end + 1);
  while (!(rest = trim_ows(rest)).empty()) {
    if (rest.front() == ';') {
      rest.remove_prefix(1);
      continue;
    }
    const auto equals = rest.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = trim_ows(rest.substr(0, equals));
    if (name.empty() || name.find_first_of("; \t\"") != std::string_view::npos) return std::nullopt;
    rest = trim_ows(rest.substr(equals + 1));
    std::string value;
    if (rest.starts_with('"')) {
      rest.remove_prefix(1);
      auto quoted = unquote(rest);
      if (!quoted) return std::nullopt;
      value = std::move(*quoted);
      rest = trim_ows(rest);
      if (!rest.empty() && rest.front() != ';') return std::nullopt;
    } else {
      const auto stop = std::min(rest.find(';'), rest.size());
      value = trim_ows(rest.substr(0, stop));
      rest.remove_prefix(stop);
    }
    out.parameters.emplace_back(name, std::move(value));
  }
  return out;
}

std::optional<std::string> decode_extended_value(std::string_view text) {
  const auto first = text.find('\'');
  if (first == std::string_view::npos) return std::nullopt;
  const auto second = text.find('\'', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::string_view charset = text.substr(0, first);
  auto bytes = percent_decode(text.substr(second + 1));
  if (!bytes || iequals(charset, "utf-8")) return bytes;
  if (!iequals(charset, "iso-8859-1")) return std::nullopt;
  std::string utf8;
  for (const char c : *bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      utf8 += c;
    } else {
      utf8 += static_cast<char>(0xc0 | (byte >> 6));
      utf8 += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return utf8;
}

}  // namespace osb::http
