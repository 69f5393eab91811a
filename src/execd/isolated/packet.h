#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::execd {

// Messages between execd, a session's first process and the processes that start runs: a few bytes and descriptors over
// a Unix socket of type SOCK_SEQPACKET. Anything long is in a memory file among the descriptors.
struct Packet {
  std::string data;
  std::vector<UniqueFd> fds;
};

inline constexpr std::size_t kMaxPacketFds = 16;

Result<void> send_packet(int socket, std::string_view data, std::span<const int> fds = {});
// Nothing: the other side has ended. Code::Unavailable: no message yet, on a socket that does not block.
Result<std::optional<Packet>> receive_packet(int socket);

// Two connected sockets of that type, close-on-exec.
Result<std::pair<UniqueFd, UniqueFd>> make_packet_sockets();

// Strings of any bytes as one.
std::string pack_strings(const std::vector<std::string>& strings);
// Code::InvalidRequest for bytes that pack_strings() does not make.
Result<std::vector<std::string>> unpack_strings(std::string_view bytes);

Result<UniqueFd> make_memory_file(std::string_view content);
Result<std::string> read_memory_file(int file, std::size_t most);

}  // namespace osb::execd
