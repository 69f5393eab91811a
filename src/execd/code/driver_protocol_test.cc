#include "execd/code/driver_protocol.h"

#include <gtest/gtest.h>

namespace osb::execd {
namespace {

using Type = DriverMessage::Type;

std::string frame(std::string_view body) { return std::to_string(body.size()) + "\n" + std::string(body); }

TEST(DriverFrameDecoder, MessagesAreTheSameHoweverTheBytesArrive) {
  const std::string stream = frame(R"({"type":"ready"})") + frame(R"({"type":"started","run":3})") +
                             frame(R"({"type":"result","run":3,"data":{"text/plain":"4"}})") +
                             R"(34 {"type":"done","run":3,"status":2})";
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    DriverFrameDecoder decoder;
    std::deque<DriverMessage> out;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      ASSERT_TRUE(decoder.feed(std::string_view(stream).substr(at, step), out));
    }
    ASSERT_EQ(out.size(), 4U) << step;
    EXPECT_EQ(out[0].type, Type::Ready);
    EXPECT_EQ(out[1].run, 3U);
    EXPECT_EQ(out[2].data.at("text/plain"), "4");
    EXPECT_EQ(out[3].status, 2);
    EXPECT_EQ(decoder.buffered(), 0U);
  }
}

TEST(DriverFrameDecoder, ErrorHasNameValueAndTraceback) {
  DriverFrameDecoder decoder;
  std::deque<DriverMessage> out;
  ASSERT_TRUE(
      decoder.feed(frame(R"({"type":"error","run":1,"ename":"NameError","evalue":"x","traceback":["a","b"]})"), out));
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].ename, "NameError");
  EXPECT_EQ(out[0].evalue, "x");
  EXPECT_EQ(out[0].traceback, (std::vector<std::string>{"a", "b"}));
}

TEST(DriverFrameDecoder, ValuesThatAreNoStringsBecomeTheirJson) {
  DriverFrameDecoder decoder;
  std::deque<DriverMessage> out;
  ASSERT_TRUE(decoder.feed(frame(R"({"type":"result","data":{"a":{"b":[1]},"c":null,"d":5}})"), out));
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].data, (std::map<std::string, std::string>{{"a", R"({"b":[1]})"}, {"d", "5"}}));
}

TEST(DriverFrameDecoder, UnknownTypesAreIgnored) {
  DriverFrameDecoder decoder;
  std::deque<DriverMessage> out;
  EXPECT_TRUE(decoder.feed(frame(R"({"type":"from the future","run":1})") + frame("{}"), out));
  EXPECT_TRUE(out.empty());
}

TEST(DriverFrameDecoder, BytesThatAreNoFrameBreakTheStream) {
  const struct {
    const char* why;
    std::string bytes;
  } rows[] = {
      {"no length", "garbage and more of it"},
      {"empty length", "\n{}"},
      {"negative", "-1\n{}"},
      {"sign", "+2\n{}"},
      {"space", " 2\n{}"},
      {"longer than a frame may be", std::to_string(kMaxFrame + 1) + "\n"},
      {"too many digits", "000000002\n{}"},
      {"no JSON", "2\n{["},
      {"no object", "2\n[]"},
      {"wrong type of a field", frame(R"({"type":"done","run":"3"})")},
      {"negative run", frame(R"({"type":"done","run":-3})")},
      {"not UTF-8", frame("{\"type\":\"\xff\"}")},
      {"deep nesting", frame(R"({"type":"result","data":)" + std::string(1000, '[') + std::string(1000, ']') + "}")},
  };
  for (const auto& row : rows) {
    DriverFrameDecoder decoder;
    std::deque<DriverMessage> out;
    EXPECT_FALSE(decoder.feed(row.bytes, out)) << row.why;
    EXPECT_TRUE(out.empty()) << row.why;
  }
}

}  // namespace
}  // namespace osb::execd
