#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace osb::http::ws {

// RFC 6455 framing without any I/O, so that it can be tested and fuzzed alone.

enum class Opcode : std::uint8_t { Continuation = 0, Text = 1, Binary = 2, Close = 8, Ping = 9, Pong = 10 };
enum class Role { Server, Client };

namespace close_code {
inline constexpr std::uint16_t kNormal = 1000;
inline constexpr std::uint16_t kGoingAway = 1001;
inline constexpr std::uint16_t kProtocolError = 1002;
inline constexpr std::uint16_t kNone = 1005;      // a close frame without a code; never on the wire
inline constexpr std::uint16_t kAbnormal = 1006;  // no close frame at all; never on the wire
inline constexpr std::uint16_t kInvalidData = 1007;
inline constexpr std::uint16_t kTooBig = 1009;
inline constexpr std::uint16_t kInternalError = 1011;
}  // namespace close_code

// Whether a close frame may carry this code.
bool is_sendable_close_code(std::uint16_t code);

using Mask = std::array<char, 4>;

// XORs bytes that start `offset` bytes into the payload.
void apply_mask(char* bytes, std::size_t size, Mask mask, std::size_t offset);

// A frame's head; `mask` null for a server. Messages are sent unfragmented, so FIN is always set.
struct FrameHead {
  FrameHead(Opcode opcode, std::uint64_t payload_size, const Mask* mask);
  std::string_view view() const { return {bytes.data(), size}; }
  std::array<char, 14> bytes;
  std::size_t size = 0;
};

// A whole control frame. The payload must not be longer than 125 bytes.
void append_control_frame(std::string& out, Opcode opcode, std::string_view payload, const Mask* mask);

// A close frame's payload: nothing for kNone, and the reason cut between characters to what fits.
std::string close_payload(std::uint16_t code, std::string_view reason);

// Checks UTF-8 that comes in pieces, as strictly as RFC 3629: no surrogates, no overlong forms.
class Utf8Check {
 public:
  bool feed(std::string_view bytes);  // false: broken already
  bool complete() const { return need_ == 0; }

 private:
  int need_ = 0;
  unsigned char low_ = 0x80, high_ = 0xBF;  // what the next byte may be
};

// Turns bytes, cut anywhere, into messages and control frames. Holds at most one message, and no more of it than has
// arrived: a frame that announces 16 MiB costs nothing until they come.
class FrameDecoder {
 public:
  struct Event {
    enum class Kind { NeedMore, Message, Ping, Pong, Close, Violation } kind = Kind::NeedMore;
    bool text = false;       // Message
    std::uint16_t code = 0;  // Close: the peer's (kNone if it gave none); Violation: what to answer
    std::string payload;     // Message, Ping, Pong; Close: the reason; Violation: what is wrong, in words
  };

  // `role` is the reader's own: a server takes masked frames only, a client unmasked ones only.
  FrameDecoder(Role role, std::size_t max_message_bytes) : role_(role), max_message_bytes_(max_message_bytes) {}

  // The next event; takes what it used off the front of `bytes`. After a violation: the same violation again.
  Event next(std::string_view& bytes);

 private:
  std::size_t head_size() const;
  bool parse_head();
  bool take_payload(std::string_view& bytes);
  Event finish_frame();
  Event finish_close();
  bool violation(std::uint16_t code, const char* what);

  Role role_;
  std::size_t max_message_bytes_;

  std::array<unsigned char, 14> head_{};
  std::size_t head_have_ = 0;
  bool in_payload_ = false;
  Opcode opcode_ = Opcode::Continuation;
  bool final_ = false;
  Mask mask_{};
  std::uint64_t left_ = 0;
  std::size_t mask_offset_ = 0;

  bool in_message_ = false;
  bool text_ = false;
  Utf8Check utf8_;
  std::string message_;
  std::string control_;
  std::uint16_t broken_code_ = 0;
  const char* broken_what_ = "";
};

}  // namespace osb::http::ws
