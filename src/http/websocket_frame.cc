#include "http/websocket_frame.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace osb::http::ws {
namespace {

constexpr std::size_t kMaxControlPayload = 125;

bool is_control(Opcode opcode) { return static_cast<std::uint8_t>(opcode) >= 8; }

bool is_known(std::uint8_t opcode) { return opcode <= 2 || (opcode >= 8 && opcode <= 10); }

std::uint64_t big_endian(const unsigned char* bytes, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = value << 8 | bytes[i];
  return value;
}

}  // namespace

bool is_sendable_close_code(std::uint16_t code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

void apply_mask(char* bytes, std::size_t size, Mask mask, std::size_t offset) {
  std::rotate(mask.begin(), mask.begin() + static_cast<std::ptrdiff_t>(offset % 4), mask.end());
  std::uint64_t wide = 0;
  std::memcpy(&wide, mask.data(), 4);
  std::memcpy(reinterpret_cast<char*>(&wide) + 4, mask.data(), 4);
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    std::uint64_t block;
    std::memcpy(&block, bytes + i, 8);
    block ^= wide;
    std::memcpy(bytes + i, &block, 8);
  }
  for (; i < size; ++i) bytes[i] = static_cast<char>(bytes[i] ^ mask[i % 4]);
}

FrameHead::FrameHead(Opcode opcode, std::uint64_t payload_size, const Mask* mask) {
  const auto put = [this](std::uint64_t value) { bytes[size++] = static_cast<char>(value & 0xFF); };
  const unsigned masked = mask != nullptr ? 0x80 : 0;
  put(0x80 | static_cast<unsigned>(opcode));
  if (payload_size < 126) {
    put(masked | payload_size);
  } else if (payload_size <= 0xFFFF) {
    put(masked | 126);
    for (int shift = 8; shift >= 0; shift -= 8) put(payload_size >> shift);
  } else {
    put(masked | 127);
    for (int shift = 56; shift >= 0; shift -= 8) put(payload_size >> shift);
  }
  if (mask == nullptr) return;
  for (const char byte : *mask) bytes[size++] = byte;
}

void append_control_frame(std::string& out, Opcode opcode, std::string_view payload, const Mask* mask) {
  out += FrameHead(opcode, payload.size(), mask).view();
  const std::size_t start = out.size();
  out += payload;
  if (mask != nullptr) apply_mask(out.data() + start, payload.size(), *mask, 0);
}

std::string close_payload(std::uint16_t code, std::string_view reason) {
  if (code == close_code::kNone) return {};
  std::string payload{static_cast<char>(code >> 8), static_cast<char>(code & 0xFF)};
  std::size_t fits = std::min(reason.size(), kMaxControlPayload - 2);
  // A continuation byte behind the cut means that the cut is inside a character.
  while (fits > 0 && fits < reason.size() && (static_cast<unsigned char>(reason[fits]) & 0xC0) == 0x80) --fits;
  return payload.append(reason.substr(0, fits));
}

bool Utf8Check::feed(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    if (need_ == 0) {
      for (std::uint64_t block; i + 8 <= bytes.size(); i += 8) {
        std::memcpy(&block, bytes.data() + i, 8);
        if ((block & 0x8080808080808080U) != 0) break;
      }
      if (i == bytes.size()) return true;
    }
    const auto byte = static_cast<unsigned char>(bytes[i++]);
    if (need_ > 0) {
      if (byte < low_ || byte > high_) return false;
      low_ = 0x80, high_ = 0xBF;
      --need_;
    } else if (byte >= 0x80) {
      if (byte < 0xC2 || byte > 0xF4) return false;
      need_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
      low_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
      high_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
    }
  }
  return true;
}

FrameDecoder::Event FrameDecoder::next(std::string_view& bytes) {
  for (;;) {
    if (broken_code_ != 0) return {Event::Kind::Violation, false, broken_code_, broken_what_};
    if (!in_payload_) {
      // Two bytes tell how long the head is.
      while (head_have_ < 2 || head_have_ < head_size()) {
        if (bytes.empty()) return {};
        const std::size_t want = (head_have_ < 2 ? 2 : head_size()) - head_have_;
        const std::size_t take = std::min(want, bytes.size());
        std::memcpy(head_.data() + head_have_, bytes.data(), take);
        head_have_ += take;
        bytes.remove_prefix(take);
      }
      if (!parse_head()) continue;
      in_payload_ = true;
    }
    if (!take_payload(bytes)) continue;
    if (left_ > 0) return {};
    in_payload_ = false;
    head_have_ = 0;
    Event event = finish_frame();
    if (event.kind != Event::Kind::NeedMore) return event;
  }
}

std::size_t FrameDecoder::head_size() const {
  const unsigned length = head_[1] & 0x7F;
  return 2 + (length == 126 ? 2 : length == 127 ? 8 : 0) + ((head_[1] & 0x80) != 0 ? 4 : 0);
}

bool FrameDecoder::parse_head() {
  const unsigned length = head_[1] & 0x7F;
  const bool masked = (head_[1] & 0x80) != 0;
  const std::size_t extended = length == 126 ? 2 : length == 127 ? 8 : 0;
  left_ = extended == 0 ? length : big_endian(head_.data() + 2, extended);
  if (masked) std::memcpy(mask_.data(), head_.data() + 2 + extended, 4);
  mask_offset_ = 0;
  final_ = (head_[0] & 0x80) != 0;
  if ((head_[0] & 0x70) != 0) return violation(close_code::kProtocolError, "reserved bits are set");
  if (!is_known(head_[0] & 0x0F)) return violation(close_code::kProtocolError, "unknown opcode");
  opcode_ = static_cast<Opcode>(head_[0] & 0x0F);
  if (masked != (role_ == Role::Server)) {
    return violation(close_code::kProtocolError,
                     masked ? "masked frame from a server" : "unmasked frame from a client");
  }
  if ((extended == 2 && left_ < 126) || (extended == 8 && left_ <= 0xFFFF)) {
    return violation(close_code::kProtocolError, "length is not in its shortest form");
  }
  if (is_control(opcode_)) {
    if (!final_) return violation(close_code::kProtocolError, "fragmented control frame");
    if (left_ > kMaxControlPayload) return violation(close_code::kProtocolError, "control frame is too long");
    return true;
  }
  if ((opcode_ == Opcode::Continuation) != in_message_) {
    return violation(close_code::kProtocolError, in_message_ ? "message begins inside another" : "nothing to continue");
  }
  if (left_ > max_message_bytes_ - message_.size()) return violation(close_code::kTooBig, "message is too big");
  if (!in_message_) {
    in_message_ = true;
    text_ = opcode_ == Opcode::Text;
    utf8_ = {};
  }
  return true;
}

bool FrameDecoder::take_payload(std::string_view& bytes) {
  const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
  if (take == 0) return true;
  std::string& target = is_control(opcode_) ? control_ : message_;
  const std::size_t start = target.size();
  target.append(bytes.data(), take);
  bytes.remove_prefix(take);
  left_ -= take;
  if (role_ == Role::Server) {
    apply_mask(target.data() + start, take, mask_, mask_offset_);
    mask_offset_ = (mask_offset_ + take) % 4;
  }
  if (!is_control(opcode_) && text_ && !utf8_.feed({target.data() + start, take})) {
    return violation(close_code::kInvalidData, "text is not UTF-8");
  }
  return true;
}

FrameDecoder::Event FrameDecoder::finish_frame() {
  switch (opcode_) {
    case Opcode::Ping:
      return {Event::Kind::Ping, false, 0, std::exchange(control_, {})};
    case Opcode::Pong:
      return {Event::Kind::Pong, false, 0, std::exchange(control_, {})};
    case Opcode::Close:
      return finish_close();
    default:
      break;
  }
  if (!final_) return {};
  in_message_ = false;
  if (text_ && !utf8_.complete()) {
    violation(close_code::kInvalidData, "text is not UTF-8");
    return {};  // next() reports it
  }
  return {Event::Kind::Message, text_, 0, std::exchange(message_, {})};
}

FrameDecoder::Event FrameDecoder::finish_close() {
  const std::string payload = std::exchange(control_, {});
  if (payload.empty()) return {Event::Kind::Close, false, close_code::kNone, {}};
  const auto* raw = reinterpret_cast<const unsigned char*>(payload.data());
  const auto code = payload.size() < 2 ? std::uint16_t{0} : static_cast<std::uint16_t>(big_endian(raw, 2));
  if (!is_sendable_close_code(code)) {
    violation(close_code::kProtocolError, "close frame without a valid code");
    return {};
  }
  Utf8Check check;
  if (!check.feed(std::string_view(payload).substr(2)) || !check.complete()) {
    violation(close_code::kInvalidData, "close reason is not UTF-8");
    return {};
  }
  return {Event::Kind::Close, false, code, payload.substr(2)};
}

bool FrameDecoder::violation(std::uint16_t code, const char* what) {
  broken_code_ = code;
  broken_what_ = what;
  message_ = {};
  return false;
}

}  // namespace osb::http::ws
