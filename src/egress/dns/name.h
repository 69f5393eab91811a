#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace osb::egress {

// A domain name in wire form: labels with their lengths, a zero byte at the end, no compression. Names are compared as
// labels, never as text: a label may hold a dot. Names that are compared are in lower case.
inline constexpr std::size_t kMaxName = 255;
inline constexpr std::size_t kMaxLabel = 63;

// A name of fixed room, for questions: no memory is asked for.
struct NameBuffer {
  std::array<char, kMaxName> bytes;  // only the first `size` are set
  std::size_t size = 0;

  std::string_view view() const { return {bytes.data(), size}; }
};

// "a.example" for people and for policy::Matcher. A byte that no rule can hold (anything but letters, digits, '-' and
// '_') becomes '?', a dot inside a label too: such a name matches no exact rule, and wildcards at the borders of its
// labels only. The root is "".
std::string_view name_text(std::string_view wire, std::array<char, kMaxName>& room);
std::string name_text(std::string_view wire);

// From "a.example" or "a.example."; nothing if that is no name. For configuration and tests.
std::optional<std::string> name_from_text(std::string_view text);

// Where `suffix` begins in `name`, at the border of a label; both lower case, in wire form.
std::optional<std::size_t> find_suffix(std::string_view name, std::string_view suffix);

inline char lower_byte(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

}  // namespace osb::egress
