#include "execd/run/event_writer.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace osb::execd {
namespace {

class Recorder {
 public:
  Recorder() : writer(*log) { writer.stamp(1'700'000'000'123); }
  std::vector<std::string> events() {
    log->publish();
    std::string all;
    EventReader reader(log, 0, [] {});
    for (auto views = reader.next(); !views.empty(); views = reader.next()) {
      for (const auto view : views) all += view;
    }
    std::vector<std::string> out;
    for (std::size_t at = 0, end; (end = all.find("\n\n", at)) != std::string::npos; at = end + 2) {
      out.push_back(all.substr(at, end - at));
    }
    return out;
  }
  std::shared_ptr<EventLog> log = std::make_shared<EventLog>(EventLog::Options{.ring_bytes = 64 << 20});
  EventWriter writer;
};

TEST(EventWriter, EventsHaveTheFieldsOfTheContractAndANumber) {
  Recorder r;
  r.writer.init("9f0c");
  r.writer.output(false, "hello");
  r.writer.output(true, "\n");
  r.writer.complete(std::chrono::milliseconds(12));
  r.writer.complete(std::chrono::milliseconds(0));
  r.writer.error("CommandExecError", "3", std::vector<std::string>{"exit status 3", "b"});
  r.writer.error("X", "", {});
  r.writer.error("X", "-1", {}, EndReason{"OUT_OF_MEMORY", "out of memory (limit 256 MiB)"});
  const std::vector<std::string> want = {
      R"({"type":"init","text":"9f0c","timestamp":1700000000123,"seq":1})",
      R"({"type":"stdout","text":"hello","timestamp":1700000000123,"seq":2})",
      R"({"type":"stderr","text":"\n","timestamp":1700000000123,"seq":3})",
      R"({"type":"execution_complete","execution_time":12,"timestamp":1700000000123,"seq":4})",
      R"({"type":"execution_complete","timestamp":1700000000123,"seq":5})",
      (R"({"type":"error","error":{"ename":"CommandExecError","evalue":"3","traceback":["exit status 3","b"]},)"
       R"("timestamp":1700000000123,"seq":6})"),
      R"({"type":"error","error":{"ename":"X","evalue":"","traceback":[]},"timestamp":1700000000123,"seq":7})",
      (R"({"type":"error","error":{"ename":"X","evalue":"-1","traceback":[]},"reason":"OUT_OF_MEMORY",)"
       R"x("reason_message":"out of memory (limit 256 MiB)","timestamp":1700000000123,"seq":8})x"),
  };
  EXPECT_EQ(r.events(), want);
}

// The text between the quotes of an output event.
std::string text_of(const std::string& event) {
  const std::size_t from = event.find("\"text\":\"") + 8;
  return event.substr(from, event.find("\",\"timestamp\"") - from);
}

TEST(EventWriter, ALineOfNearly4MiBComesWhole) {
  Recorder r;
  const std::string line(kMaxEventText, 'x');
  r.writer.output(false, line);
  ASSERT_EQ(r.events().size(), 1U);
  EXPECT_EQ(text_of(r.events()[0]), line);
  EXPECT_LT(r.events()[0].size(), 4U << 20);
}

TEST(EventWriter, TextThatEscapingMakesTooLongIsSplitBetweenCharacters) {
  struct {
    const char* why;
    std::string unit;
    std::string escaped;
  } rows[] = {
      {"controls take six bytes", "\x01", "\\u0001"},
      {"a bad byte takes three", "\xff", "\xEF\xBF\xBD"},
      {"characters stay whole", "\xE2\x82\xAC", "\xE2\x82\xAC"},
      {"four byte ones too", "\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
      {"line separators", "\xE2\x80\xA8", "\\u2028"},
  };
  for (const auto& row : rows) {
    std::string line;
    while (line.size() < kMaxEventText - 8) line += row.unit;
    Recorder r;
    r.writer.output(false, line);
    std::string joined;
    for (const std::string& event : r.events()) {
      EXPECT_LT(event.size(), 4U << 20) << row.why;
      joined += text_of(event);
    }
    std::string want;
    for (std::size_t i = 0; i < line.size() / row.unit.size(); ++i) want += row.escaped;
    EXPECT_TRUE(joined == want) << row.why;
    EXPECT_EQ(r.events().size(), want.size() / kMaxEventBytes + 1) << row.why;
  }
}

}  // namespace
}  // namespace osb::execd
