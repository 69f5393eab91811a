#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// How much room text takes in a reply. A tool's result is JSON inside a text block of a JSON message, so a string in it
// is escaped twice: a line feed takes 3 bytes, a quote 4, other control characters 7. A byte that is not UTF-8 counts
// as the 3 bytes of U+FFFD, which replaces it.
namespace osb::mcp {

// Bytes of `text`, as a string inside a result, in the encoded reply.
std::uint64_t reply_cost(std::string_view text);

// Room for text: as it is, and encoded.
struct Room {
  std::size_t bytes = 0;
  std::size_t cost = 0;
  Room half() const { return {bytes / 2, cost / 2}; }
};

// Length of the longest prefix, or suffix, that fits and does not cut a character.
std::size_t fitting_prefix(std::string_view text, Room room);
std::size_t fitting_suffix(std::string_view text, Room room);

// The same, and where a line ends in the outer half of the fitting part the cut is there.
std::size_t fitting_lines_prefix(std::string_view text, Room room);
std::size_t fitting_lines_suffix(std::string_view text, Room room);

}  // namespace osb::mcp
