#include "http/websocket_frame.h"

#include <vector>

#include <gtest/gtest.h>

#include "http/websocket_key.h"

namespace osb::http::ws {
namespace {

using Event = FrameDecoder::Event;
using Kind = Event::Kind;

constexpr Mask kMask{'\x37', '\xfa', '\x21', '\x3d'};

// A frame as a client sends it, with full control over its first byte.
std::string masked_frame(unsigned first, std::string payload) {
  std::string out(FrameHead(Opcode::Text, payload.size(), &kMask).view());
  out[0] = static_cast<char>(first);
  apply_mask(payload.data(), payload.size(), kMask, 0);
  return out + payload;
}

std::vector<Event> decode_in_pieces(std::string_view bytes, std::size_t piece, std::size_t limit = 1 << 20) {
  FrameDecoder decoder(Role::Server, limit);
  std::vector<Event> events;
  for (std::size_t i = 0; i < bytes.size(); i += piece) {
    std::string_view part = bytes.substr(i, piece);
    for (;;) {
      Event event = decoder.next(part);
      if (event.kind == Kind::NeedMore) break;
      events.push_back(event);
      if (event.kind == Kind::Violation) return events;
    }
  }
  return events;
}

TEST(WebSocketKey, AcceptIsTheOneOfTheStandardsExample) {
  EXPECT_EQ(accept_for("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_TRUE(is_key("dGhlIHNhbXBsZSBub25jZQ=="));
  EXPECT_FALSE(is_key("dGhlIHNhbXBsZSBub25jZQ"));
  EXPECT_FALSE(is_key("dGhl HNhbXBsZSBub25jZQ=="));
  EXPECT_TRUE(is_key(new_key()));
  EXPECT_NE(new_key(), new_key());
}

TEST(WebSocketFrame, MessagesSurviveAnyCut) {
  const std::string bytes = masked_frame(0x01, "Gr\xC3") + masked_frame(0x89, "are you there") +
                            masked_frame(0x00, "\xBC\xC3\x9F") + masked_frame(0x80, "e") + masked_frame(0x82, "") +
                            masked_frame(0x8A, "") + masked_frame(0x88, "\x0F\xA1too late");
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    const auto events = decode_in_pieces(bytes, piece);
    ASSERT_EQ(events.size(), 5U) << piece;
    EXPECT_EQ(events[0].kind, Kind::Ping);
    EXPECT_EQ(events[0].payload, "are you there");
    EXPECT_EQ(events[1].kind, Kind::Message);
    EXPECT_TRUE(events[1].text);
    EXPECT_EQ(events[1].payload,
              "Gr\xC3\xBC\xC3\x9F"
              "e");
    EXPECT_EQ(events[2].kind, Kind::Message);
    EXPECT_FALSE(events[2].text);
    EXPECT_EQ(events[3].kind, Kind::Pong);
    EXPECT_EQ(events[4].kind, Kind::Close);
    EXPECT_EQ(events[4].code, 4001);
    EXPECT_EQ(events[4].payload, "too late");
  }
}

TEST(WebSocketFrame, EveryFormOfLengthComesBack) {
  for (const std::size_t size : {0, 1, 125, 126, 127, 65535, 65536, 200000}) {
    const std::string payload(size, 'x');
    const auto events = decode_in_pieces(masked_frame(0x82, payload), 4096);
    ASSERT_EQ(events.size(), 1U) << size;
    EXPECT_EQ(events[0].payload, payload) << size;
  }
}

TEST(WebSocketFrame, ViolationsAreNamedByTheirCode) {
  const std::string unmasked = std::string(FrameHead(Opcode::Text, 2, nullptr).view()) + "hi";
  const struct {
    const char* why;
    std::string bytes;
    std::uint16_t code;
  } rows[] = {
      {"not masked", unmasked, 1002},
      {"reserved bit: compression was not agreed on", masked_frame(0xC1, "hi"), 1002},
      {"unknown data opcode", masked_frame(0x83, "hi"), 1002},
      {"unknown control opcode", masked_frame(0x8B, "hi"), 1002},
      {"fragmented ping", masked_frame(0x09, "hi"), 1002},
      {"long ping", masked_frame(0x89, std::string(126, 'x')), 1002},
      {"continues nothing", masked_frame(0x80, "hi"), 1002},
      {"begins inside another", masked_frame(0x01, "a") + masked_frame(0x81, "b"), 1002},
      {"16-bit length of 5", std::string("\x81\xFE\x00\x05", 4) + "mask", 1002},
      {"64-bit length of 126", std::string("\x81\xFF\0\0\0\0\0\0\0\x7E", 10) + "mask", 1002},
      {"length beyond all limits", "\x82\xFF" + std::string(8, '\xFF') + "mask", 1009},
      {"too big in one", masked_frame(0x82, std::string(1001, 'x')), 1009},
      {"too big in two", masked_frame(0x02, std::string(600, 'x')) + masked_frame(0x80, std::string(401, 'x')), 1009},
      {"text is not UTF-8", masked_frame(0x81, "\xFF"), 1007},
      {"text ends inside a character", masked_frame(0x81, "\xC3"), 1007},
      {"broken before the message ends", masked_frame(0x01, "\xED\xA0"), 1007},
      {"close of one byte", masked_frame(0x88, "\x03"), 1002},
      {"1005 never travels", masked_frame(0x88, "\x03\xED"), 1002},
      {"close code out of range", masked_frame(0x88, "\x01\x01"), 1002},
      {"reason is not UTF-8", masked_frame(0x88, "\x03\xE8\xFF"), 1007},
  };
  for (const auto& row : rows) {
    for (const std::size_t piece : {std::size_t{1}, row.bytes.size()}) {
      const auto events = decode_in_pieces(row.bytes, piece, 1000);
      ASSERT_EQ(events.size(), 1U) << row.why;
      EXPECT_EQ(events[0].kind, Kind::Violation) << row.why;
      EXPECT_EQ(events[0].code, row.code) << row.why << ": " << events[0].payload;
    }
  }
}

TEST(WebSocketFrame, MessageOfExactlyTheLimitPasses) {
  const auto events =
      decode_in_pieces(masked_frame(0x02, std::string(600, 'x')) + masked_frame(0x80, std::string(400, 'x')), 7, 1000);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].payload.size(), 1000U);
}

TEST(WebSocketFrame, ClientTakesUnmaskedFramesOnly) {
  FrameDecoder decoder(Role::Client, 1000);
  const std::string bytes = std::string(FrameHead(Opcode::Text, 2, nullptr).view()) + "hi" + masked_frame(0x81, "no");
  std::string_view rest = bytes;
  EXPECT_EQ(decoder.next(rest).payload, "hi");
  EXPECT_EQ(decoder.next(rest).code, 1002);
}

TEST(WebSocketFrame, CloseReasonIsCutBetweenCharacters) {
  std::string reason = "x";
  while (reason.size() < 200) reason += "\xC3\xBC";
  const std::string payload = close_payload(4001, reason);
  EXPECT_EQ(payload.size(), 2U + 123U);  // 1 + 61 * 2
  Utf8Check check;
  EXPECT_TRUE(check.feed(payload.substr(2)) && check.complete());
  reason = "\xC3\xBC" + reason;
  reason.erase(2, 1);
  EXPECT_EQ(close_payload(4001, reason).size(), 2U + 122U);
  EXPECT_EQ(close_payload(1005, "ignored"), "");
}

TEST(WebSocketFrame, Utf8IsCheckedStrictly) {
  const struct {
    const char* text;
    bool good;
  } rows[] = {
      {"plain text that is longer than one block", true},
      {"K\xC3\xB6ln \xE2\x82\xAC \xF0\x9F\x98\x80", true},
      {"\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF", true},
      {"\xED\xA0\x80", false},      // surrogate
      {"\xC0\xAF", false},          // overlong
      {"\xE0\x80\xAF", false},      // overlong
      {"\xF0\x80\x80\xAF", false},  // overlong
      {"\xF4\x90\x80\x80", false},  // above U+10FFFF
      {"\x80", false},
      {"12345678\xC3(", false},
  };
  for (const auto& row : rows) {
    Utf8Check whole;
    EXPECT_EQ(whole.feed(row.text) && whole.complete(), row.good) << row.text;
    Utf8Check bytewise;
    bool good = true;
    for (const char c : std::string_view(row.text)) good = good && bytewise.feed({&c, 1});
    EXPECT_EQ(good && bytewise.complete(), row.good) << row.text;
  }
}

}  // namespace
}  // namespace osb::http::ws
