#include "vault/path.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace osb::vault {
namespace {

constexpr int kMostLayers = 8;

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// The byte of an escape at the beginning of the text.
std::optional<char> escape_at(std::string_view text) {
  if (text.size() < 3 || text[0] != '%') return std::nullopt;
  const auto high = hex_digit(text[1]), low = hex_digit(text[2]);
  if (!high || !low) return std::nullopt;
  return static_cast<char>(*high << 4 | *low);
}

std::string normalize(std::string_view path) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto byte = escape_at(path.substr(i));
    if (!byte) {
      out.push_back(path[i]);
      continue;
    }
    if (is_unreserved(*byte)) {
      out.push_back(*byte);
    } else {
      const auto value = static_cast<unsigned char>(*byte);
      out += {'%', kDigits[value >> 4], kDigits[value & 15]};
    }
    i += 2;
  }
  return out;
}

std::string decode(std::string_view path) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto byte = escape_at(path.substr(i));
    out.push_back(byte.value_or(path[i]));
    if (byte) i += 2;
  }
  return out;
}

// Some servers cut a segment at ';' before they resolve dots.
bool has_dot_segment(std::string_view path) {
  while (!path.empty()) {
    const auto end = path.find('/');
    std::string_view segment = path.substr(0, end);
    segment = segment.substr(0, segment.find(';'));
    if (segment == "." || segment == "..") return true;
    if (end == std::string_view::npos) return false;
    path.remove_prefix(end + 1);
  }
  return false;
}

bool has_odd_byte(std::string_view path) {
  return std::ranges::any_of(
      path, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\' || c == '#'; });
}

bool has_broken_escape(std::string_view path) {
  for (auto at = path.find('%'); at != std::string_view::npos; at = path.find('%', at + 1)) {
    if (!escape_at(path.substr(at))) return true;
  }
  return false;
}

bool has_encoded_slash(std::string_view path) { return path.contains("%2f") || path.contains("%2F"); }

}  // namespace

RequestPath read_path(std::string_view path) {
  RequestPath out{.normal = normalize(path), .decoded = std::string(path), .ambiguous = has_broken_escape(path)};
  for (int layer = 0;; ++layer) {
    if (has_odd_byte(out.decoded) || has_dot_segment(out.decoded)) out.ambiguous = true;
    if (layer > 0 && has_encoded_slash(out.decoded)) out.ambiguous = true;
    std::string next = decode(out.decoded);
    if (next == out.decoded) return out;
    out.decoded = std::move(next);
    if (layer == kMostLayers) {
      out.ambiguous = true;
      return out;
    }
  }
}

bool path_matches(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with('*')) return path == pattern;
  return path.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool paths_overlap(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const bool a_prefix = a.ends_with('*'), b_prefix = b.ends_with('*');
  if (a_prefix) a.remove_suffix(1);
  if (b_prefix) b.remove_suffix(1);
  return (a_prefix && b.starts_with(a)) || (b_prefix && a.starts_with(b));
}

}  // namespace osb::vault
