#include "egress/dns/name.h"

namespace osb::egress {
namespace {

bool is_host_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

std::size_t label_size(std::string_view wire, std::size_t at) { return static_cast<std::uint8_t>(wire[at]); }

}  // namespace

std::string_view name_text(std::string_view wire, std::array<char, kMaxName>& room) {
  std::size_t used = 0;
  for (std::size_t at = 0; at < wire.size() && wire[at] != 0;) {
    const std::size_t end = at + 1 + label_size(wire, at);
    if (used > 0) room[used++] = '.';
    for (++at; at < end; ++at) room[used++] = is_host_byte(wire[at]) ? lower_byte(wire[at]) : '?';
  }
  return {room.data(), used};
}

std::string name_text(std::string_view wire) {
  std::array<char, kMaxName> room;
  return std::string(name_text(wire, room));
}

std::optional<std::string> name_from_text(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  std::string wire;
  while (!text.empty()) {
    const auto dot = text.find('.');
    const std::string_view label = text.substr(0, dot);
    if (label.empty() || label.size() > kMaxLabel) return std::nullopt;
    wire.push_back(static_cast<char>(label.size()));
    for (const char c : label) wire.push_back(lower_byte(c));
    if (dot == std::string_view::npos) break;
    text.remove_prefix(dot + 1);
    if (text.empty()) return std::nullopt;
  }
  wire.push_back('\0');
  if (wire.size() > kMaxName) return std::nullopt;
  return wire;
}

std::optional<std::size_t> find_suffix(std::string_view name, std::string_view suffix) {
  for (std::size_t at = 0; at < name.size(); at += 1 + label_size(name, at)) {
    if (name.size() - at < suffix.size()) return std::nullopt;
    if (name.substr(at) == suffix) return at;
    if (name[at] == 0) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace osb::egress
