#include "client/event_decoder.h"

#include <gtest/gtest.h>

namespace opensandbox {
namespace {

using Type = ExecutionEvent::Type;

std::vector<ExecutionEvent> decode(std::string_view stream, std::size_t step = SIZE_MAX) {
  EventDecoder decoder(false);
  std::vector<ExecutionEvent> out;
  while (!stream.empty()) {
    decoder.feed(stream.substr(0, step), out);
    stream.remove_prefix(std::min(step, stream.size()));
  }
  decoder.finish(out);
  return out;
}

TEST(EventDecoder, TakesBareLinesAndServerSentEvents) {
  const std::string stream =
      "{\"type\":\"init\",\"text\":\"id\",\"timestamp\":1,\"seq\":1}\n\n"
      ": comment\nevent: x\nid: 3\nretry: 5\n"
      "data: {\"type\":\"stdout\",\"text\":\"a\",\"timestamp\":2,\"seq\":2}\r\n\r\n"
      "data:{\"type\":\"ping\",\"text\":\"pong\",\"timestamp\":2}\n"
      "not json\n{broken\n[1]\n{\"no\":\"type\"}\n"
      "{\"type\":\"stderr\",\"text\":\"\\n\",\"timestamp\":3,\"seq\":3}\n\n"
      "{\"type\":\"later\",\"text\":\"x\",\"timestamp\":4}\n\n"
      "{\"type\":\"execution_complete\",\"execution_time\":12,\"timestamp\":5,\"seq\":4}";
  for (const std::size_t step : {SIZE_MAX, std::size_t{1}, std::size_t{7}}) {
    const auto events = decode(stream, step);
    ASSERT_EQ(events.size(), 5u);
    EXPECT_EQ(events[0].type, Type::Init);
    EXPECT_EQ(events[1].text, "a");
    EXPECT_EQ(events[2].line(), "\n");
    EXPECT_EQ(events[3].type, Type::Other);
    EXPECT_FALSE(events[3].json.empty());
    EXPECT_EQ(events[4].execution_time.count(), 12);
    EXPECT_EQ(events[4].seq, 4u);
  }
}

TEST(EventDecoder, ReasonsComeWithTheError) {
  const auto events = decode(
      "{\"type\":\"error\",\"error\":{\"ename\":\"CommandExecError\",\"evalue\":\"-1\",\"traceback\":[]},"
      "\"reason\":\"OUT_OF_MEMORY\",\"reason_message\":\"out of memory (limit 256 MiB)\",\"timestamp\":1}\n"
      "{\"type\":\"error\",\"error\":{\"ename\":\"CommandExecError\",\"evalue\":\"3\",\"traceback\":[]},"
      "\"timestamp\":1}\n");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].error->reason, "OUT_OF_MEMORY");
  EXPECT_EQ(events[0].error->reason_message, "out of memory (limit 256 MiB)");
  EXPECT_EQ(events[1].error->reason, "");
  EXPECT_EQ(events[1].error->reason_message, "");
}

TEST(EventDecoder, KnowsErrorsInBothForms) {
  const auto events = decode(
      "{\"type\":\"error\",\"error\":{\"ename\":\"CommandExecError\",\"evalue\":\"3\",\"traceback\":null},"
      "\"timestamp\":1}\n"
      "{\"type\":\"error\",\"timestamp\":1}\n"
      "{\"code\":\"RUNTIME_ERROR\",\"message\":\"broken\"}\n");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].error->value, "3");
  EXPECT_TRUE(events[1].error);
  EXPECT_EQ(events[2].error->name, "RUNTIME_ERROR");
  EXPECT_EQ(events[2].error->value, "broken");
}

TEST(EventDecoder, KeepsBytesThatAreNoText) {
  const auto events = decode("{\"type\":\"stdout\",\"text\":\"\xFF\",\"timestamp\":1}\n");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "\xFF");
}

TEST(Accumulate, GivesLinesAndCountsGaps) {
  Execution execution;
  for (const auto& event :
       decode("{\"type\":\"init\",\"text\":\"id\",\"seq\":1}\n{\"type\":\"stdout\",\"text\":\"\\n\",\"seq\":2}\n"
              "{\"type\":\"gap\",\"from\":3,\"to\":9}\n")) {
    accumulate(execution, event, true);
  }
  EXPECT_EQ(execution.id, "id");
  EXPECT_EQ(execution.stdout_lines, std::vector<std::string>{""});
  EXPECT_EQ(execution.stdout_text(), "\n");
  EXPECT_EQ(execution.last_seq, 9u);
  EXPECT_FALSE(execution.complete);
}

TEST(Accumulate, OutputOfCodeStaysAsItWasWritten) {
  const std::string stream =
      "{\"type\":\"stdout\",\"text\":\"a\\n\"}\n\n{\"type\":\"stdout\",\"text\":\"\\n\"}\n\n{\"type\":\"stdout\","
      "\"text\":\"b\"}\n\n";
  Execution code{.pieces = true};
  Execution command;
  for (const auto& event : decode(stream)) {
    accumulate(code, event, true);
    accumulate(command, event, true);
  }
  EXPECT_EQ(code.stdout_text(), "a\n\nb");
  EXPECT_EQ(command.stdout_lines.size(), 3u);
}

}  // namespace
}  // namespace opensandbox
