#include "execd/pty/client_frame.h"

#include <signal.h>

#include <gtest/gtest.h>

namespace osb::execd {
namespace {

using namespace std::string_literals;

template <typename T>
bool is(const ClientFrame& frame) {
  return std::holds_alternative<T>(frame);
}

TEST(ClientFrame, BinaryIsInputBehindItsTag) {
  const ClientFrame frame = decode_client_frame(false, "\0a\0b"s);
  ASSERT_TRUE(is<StdinFrame>(frame));
  EXPECT_EQ(std::get<StdinFrame>(frame).bytes, "a\0b"s);
  for (const std::string& other : {""s, "\0"s, "\1x"s, "\3x"s, "x"s}) {
    EXPECT_TRUE(is<IgnoredFrame>(decode_client_frame(false, other)));
  }
}

TEST(ClientFrame, TextIsOneOfFiveTypes) {
  EXPECT_EQ(std::get<StdinFrame>(decode_client_frame(true, R"({"type":"stdin","data":"ls\n"})")).bytes, "ls\n");
  EXPECT_EQ(std::get<SignalFrame>(decode_client_frame(true, R"({"type":"signal","signal":"SIGHUP"})")).number, SIGHUP);
  const auto resize = std::get<ResizeFrame>(decode_client_frame(true, R"({"type":"resize","cols":100,"rows":40})"));
  EXPECT_EQ(resize.columns, 100);
  EXPECT_EQ(resize.rows, 40);
  EXPECT_TRUE(is<EndOfInputFrame>(decode_client_frame(true, R"({"type":"eof"})")));
  EXPECT_TRUE(is<PingFrame>(decode_client_frame(true, R"({"type":"ping"})")));
}

TEST(ClientFrame, MeaninglessFramesAreIgnoredOrInvalid) {
  for (const char* text :
       {"", "{", "[]", "null", "1", R"({"type":1})", R"({"type":"signal","signal":"SIGSTOP"})", R"({"type":"signal"})",
        R"({"type":"resize","cols":0,"rows":40})", R"({"type":"resize","cols":100})",
        R"({"type":"resize","cols":100000,"rows":1})", R"({"type":"stdin"})"}) {
    EXPECT_TRUE(is<IgnoredFrame>(decode_client_frame(true, text))) << text;
  }
  EXPECT_TRUE(is<InvalidFrame>(decode_client_frame(true, R"({"type":"dance"})")));
  EXPECT_TRUE(is<InvalidFrame>(decode_client_frame(true, "{}")));
}

TEST(ServerFrame, HasTheContractsForm) {
  EXPECT_EQ(replay_head(0x0102030405060708), "\3\1\2\3\4\5\6\7\10"s);
  EXPECT_EQ(connected_text("id", "pty", false), R"({"type":"connected","session_id":"id","mode":"pty"})");
  EXPECT_EQ(connected_text("id", "pipe", true),
            R"({"type":"connected","session_id":"id","mode":"pipe","readonly":true})");
  EXPECT_EQ(connected_text("id", "pipe", false, 7),
            R"({"type":"connected","session_id":"id","mode":"pipe","input_offset":7})");
  EXPECT_EQ(input_text(7, false), R"({"type":"input","offset":7})");
  EXPECT_EQ(input_text(7, true), R"({"type":"input","offset":7,"closed":true})");
  EXPECT_EQ(exit_text(3), R"({"type":"exit","exit_code":3})");
  EXPECT_EQ(exit_text(-1, 9), R"({"type":"exit","exit_code":-1,"signal":9})");
  EXPECT_EQ(exit_text(137, 0, EndReason{"OUT_OF_MEMORY", "out of memory (limit 1 GiB)"}),
            R"({"type":"exit","exit_code":137,"reason":"OUT_OF_MEMORY",)"
            R"x("reason_message":"out of memory (limit 1 GiB)"})x");
  EXPECT_EQ(error_text("START_FAILED", "no \"sh\""), R"({"type":"error","error":"no \"sh\"","code":"START_FAILED"})");
}

}  // namespace
}  // namespace osb::execd
