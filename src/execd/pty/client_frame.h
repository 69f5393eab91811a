#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "execd/run/end_reason.h"

namespace osb::execd {

// Frames that a client may send on a PTY's WebSocket.
struct StdinFrame {
  std::string bytes;
};
struct SignalFrame {
  int number = 0;
};
struct ResizeFrame {
  int columns = 0;
  int rows = 0;
};
struct EndOfInputFrame {};  // not in the contract; pipes only
struct PingFrame {};
struct IgnoredFrame {};  // malformed or empty: no answer
struct InvalidFrame {    // answered with INVALID_FRAME
  std::string message;
};
using ClientFrame =
    std::variant<StdinFrame, EndOfInputFrame, SignalFrame, ResizeFrame, PingFrame, IgnoredFrame, InvalidFrame>;

// Never fails. `data` is used up.
ClientFrame decode_client_frame(bool text, std::string data);

// Frames that a PTY sends. Binary: the first byte is the kind.
inline constexpr char kStdinTag = 0;
inline constexpr char kReplayTag = 3;

// The head of a replay frame: tag and the first byte's offset, big-endian.
std::string replay_head(std::uint64_t offset);
// `input_offset`: how much input the process has been given so far, for clients that asked to be told.
std::string connected_text(std::string_view session_id, std::string_view mode, bool read_only,
                           std::optional<std::uint64_t> input_offset = std::nullopt);
// The process's pipe has taken the input up to `offset`; `closed`: it takes no more, which is not an error.
std::string input_text(std::uint64_t offset, bool closed);
std::string pong_text();
// `signal`, which the contract does not have, only where one ended it; `code` is -1 then.
std::string exit_text(int code, int signal = 0, const std::optional<EndReason>& reason = {});
std::string error_text(std::string_view code, std::string_view message);

}  // namespace osb::execd
