#include "kubernetes/event_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/task_group.h"
#include "kubernetes/testing/cluster_fixture.h"
#include "kubernetes/testing/status_answer.h"

namespace osb::kubernetes {
namespace {

using Type = EventRecorder::Type;

class EventRecorderTest : public testing::ClusterFixture {
 protected:
  EventRecorderTest() : tasks(io.get_executor()) {
    ClientOptions options;
    options.sleep = [](std::chrono::nanoseconds) { return sleep_for(std::chrono::nanoseconds(0)); };
    sender = open(std::move(options));
    recorder = std::make_unique<EventRecorder>(io.get_executor(), *sender,
                                               EventRecorder::Options{.component = "opensandbox-test", .queue = 5});
    tasks.spawn("events", recorder->run());
  }
  ~EventRecorderTest() override {
    run(tasks.close());
    recorder.reset();
    sender.reset();
  }
  std::vector<ObjectPtr> events() {
    run(recorder->wait_idle());
    return must(client->list(resources::kEvents, ns, {.fields = "involvedObject.name=one"})).items;
  }

  TaskGroup tasks;
  std::unique_ptr<Client> sender;
  std::unique_ptr<EventRecorder> recorder;
};

TEST_F(EventRecorderTest, AnEventNamesItsObject) {
  const json::object about = make_map("one");
  recorder->record(about, Type::Warning, "FailedCreate", "quota exceeded");
  const auto all = events();
  ASSERT_EQ(all.size(), 1u);
  const json::object& event = *all[0];
  EXPECT_EQ(text(event, {"involvedObject", "uid"}), uid_of(about));
  EXPECT_EQ(text(event, {"involvedObject", "kind"}), "ConfigMap");
  EXPECT_EQ(text(event, {"type"}), "Warning");
  EXPECT_EQ(text(event, {"reason"}), "FailedCreate");
  EXPECT_EQ(text(event, {"message"}), "quota exceeded");
  EXPECT_EQ(text(event, {"source", "component"}), "opensandbox-test");
  EXPECT_EQ(number(event, {"count"}), 1);
}

TEST_F(EventRecorderTest, TheSameEventAgainIsCounted) {
  const json::object about = make_map("one");
  for (int i = 0; i < 3; ++i) recorder->record(about, Type::Normal, "SuccessfulCreate", "pod made");
  recorder->record(about, Type::Normal, "SuccessfulCreate", "another pod made");
  const auto all = events();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(number(*all[0], {"count"}) + number(*all[1], {"count"}), 4);
}

TEST_F(EventRecorderTest, AnEventThatTheServerHasForgottenIsMadeAnew) {
  const json::object about = make_map("one");
  recorder->record(about, Type::Normal, "R", "m");
  auto all = events();
  ASSERT_EQ(all.size(), 1u);
  must(client->remove({resources::kEvents, key_of(*all[0])}));
  recorder->record(about, Type::Normal, "R", "m");
  all = events();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(number(*all[0], {"count"}), 1);
}

TEST_F(EventRecorderTest, LongMessagesAreCutBetweenCharacters) {
  std::string message;
  for (int i = 0; i < 600; ++i) message += "\u00e4";
  recorder->record(make_map("one"), Type::Normal, "R", "x" + message);
  const auto all = events();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(text(*all[0], {"message"}).size(), 1023u);
}

TEST_F(EventRecorderTest, EventsThatCannotBeSentAreDroppedAndCounted) {
  OSB_ONLY_IN_PROCESS();
  const json::object about = make_map("one");
  int refusals = 2;
  server->intercept = [&](const http::Request& request) -> std::optional<http::Response> {
    if (!request.target.contains("events") || request.method != "POST") return std::nullopt;
    if (refusals-- > 0) return testing::status_answer(500, "InternalError", "etcd is away");
    return std::nullopt;
  };
  recorder->record(about, Type::Normal, "R", "tried again until it is sent");
  EXPECT_EQ(events().size(), 1u);
  EXPECT_EQ(recorder->dropped(), 0u);
  server->intercept = [&](const http::Request& request) -> std::optional<http::Response> {
    if (request.method != "POST") return std::nullopt;
    return testing::status_answer(403, "Forbidden", "no events here");
  };
  recorder->record(about, Type::Normal, "R", "refused");
  run(recorder->wait_idle());
  EXPECT_EQ(recorder->dropped(), 1u);
  for (int i = 0; i < 8; ++i) recorder->record(about, Type::Normal, "R", std::to_string(i));
  EXPECT_EQ(recorder->dropped(), 4u) << "the queue holds 5";
  run(recorder->wait_idle());
  EXPECT_EQ(recorder->dropped(), 9u);
}

}  // namespace
}  // namespace osb::kubernetes
