#include "mcp/reply_text.h"

#include <algorithm>

#include "base/utf8.h"

namespace osb::mcp {
namespace {

struct Character {
  std::size_t bytes;
  std::size_t cost;
};

std::size_t ascii_cost(char c) {
  switch (c) {
    case '"':
    case '\\':
      return 4;
    case '\n':
    case '\r':
    case '\t':
    case '\b':
    case '\f':
      return 3;
    default:
      return static_cast<unsigned char>(c) < 0x20 ? 7 : 1;
  }
}

Character first_of(const char* p, const char* end) {
  if (static_cast<unsigned char>(*p) < 0x80) return {1, ascii_cost(*p)};
  const std::size_t length = utf8_sequence_length(p, end);
  return length == 0 ? Character{1, 3} : Character{length, length};
}

Character last_of(const char* begin, const char* end) {
  const char* p = end - 1;
  if (static_cast<unsigned char>(*p) < 0x80) return {1, ascii_cost(*p)};
  while (p > begin && end - p < 4 && (static_cast<unsigned char>(*p) & 0xC0) == 0x80) --p;
  const auto length = static_cast<std::size_t>(end - p);
  return utf8_sequence_length(p, end) == length ? Character{length, length} : Character{1, 3};
}

bool take(Room& room, Character next) {
  if (next.bytes > room.bytes || next.cost > room.cost) return false;
  room.bytes -= next.bytes;
  room.cost -= next.cost;
  return true;
}

}  // namespace

std::uint64_t reply_cost(std::string_view text) {
  std::uint64_t cost = 0;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const Character next = first_of(p, end);
    cost += next.cost;
    p += next.bytes;
  }
  return cost;
}

std::size_t fitting_prefix(std::string_view text, Room room) {
  const char* p = text.data();
  for (const char* const end = p + text.size(); p < end;) {
    const Character next = first_of(p, end);
    if (!take(room, next)) break;
    p += next.bytes;
  }
  return static_cast<std::size_t>(p - text.data());
}

std::size_t fitting_suffix(std::string_view text, Room room) {
  const char* end = text.data() + text.size();
  while (end > text.data()) {
    const Character last = last_of(text.data(), end);
    if (!take(room, last)) break;
    end -= last.bytes;
  }
  return text.size() - static_cast<std::size_t>(end - text.data());
}

std::size_t fitting_lines_prefix(std::string_view text, Room room) {
  const std::size_t cut = fitting_prefix(text, room);
  if (cut == text.size() || cut == 0) return cut;
  const std::size_t line_feed = text.substr(0, cut).rfind('\n');
  return line_feed != std::string_view::npos && line_feed + 1 >= cut / 2 ? line_feed + 1 : cut;
}

std::size_t fitting_lines_suffix(std::string_view text, Room room) {
  const std::size_t length = fitting_suffix(text, room);
  const std::size_t begin = text.size() - length;
  if (begin == 0 || length == 0 || text[begin - 1] == '\n') return length;
  const std::size_t line_feed = text.find('\n', begin);
  return line_feed != std::string_view::npos && line_feed + 1 - begin <= length / 2 ? text.size() - line_feed - 1
                                                                                    : length;
}

}  // namespace osb::mcp
