#include "runtime/docker/engine_stream.h"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

namespace osb::runtime {
namespace {

boost::json::value line(const char* text) { return boost::json::parse(text); }

TEST(JsonLinesTest, DocumentsComeOutWhenTheyAreComplete) {
  JsonLines lines;
  lines.add("{\"a\":1}\n\r\n{\"a\"");
  EXPECT_EQ(lines.next()->value(), line("{\"a\":1}"));
  EXPECT_FALSE(*lines.next());
  lines.add(":2}");
  EXPECT_FALSE(*lines.next());
  lines.finish();
  EXPECT_EQ(lines.next()->value(), line("{\"a\":2}"));
  EXPECT_FALSE(*lines.next());
}

TEST(JsonLinesTest, InvalidOrEndlessJsonIsAnError) {
  JsonLines lines;
  lines.add("oops\n{}\n");
  EXPECT_FALSE(lines.next());
  JsonLines endless;
  endless.add(std::string(17 << 20, 'x'));
  EXPECT_FALSE(endless.next());
}

TEST(EngineEventTest, OnlyAContainerWithOurLabelAndNameIsASandbox) {
  const char* text = R"({"Type":"container","Action":"die","timeNano":1700000000000000042,
      "Actor":{"ID":"c","Attributes":{"name":"sandbox-a","opensandbox.io/id":"a"}}})";
  const EngineEvent event = read_event(line(text));
  EXPECT_EQ(event.sandbox, "a");
  EXPECT_EQ(event.object, "c");
  EXPECT_EQ(event.action, EngineEvent::Action::Ended);
  EXPECT_EQ(event.time, "1700000000.000000042");
  const char* labelled = R"({"Type":"container","Actor":{"Attributes":{"name":"x","opensandbox.io/id":"a"}}})";
  EXPECT_EQ(read_event(line(labelled)).sandbox, "");
  EXPECT_EQ(read_event(line("[1]")).time, "");
}

TEST(PullProgressTest, OnlyGrowsAndNeverClaimsToBeDone) {
  PullProgress progress;
  EXPECT_EQ(progress.text(), "pulling 0%");
  EXPECT_FALSE(progress.take(line(R"({"status":"Pulling fs layer","id":"a"})")));
  EXPECT_TRUE(progress.take(line(R"({"status":"Downloading","id":"a","progressDetail":{"current":50,"total":100}})")));
  EXPECT_EQ(progress.text(), "pulling 50%");
  EXPECT_FALSE(progress.take(line(R"({"status":"Downloading","id":"b","progressDetail":{"current":0,"total":900}})")));
  EXPECT_TRUE(progress.take(line(R"({"status":"Downloading","id":"b","progressDetail":{"current":8e18,"total":1}})")));
  EXPECT_EQ(progress.text(), "pulling 99%");
}

}  // namespace
}  // namespace osb::runtime
