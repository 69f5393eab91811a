#include "api/task_executor.h"

#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include "api/json.h"

namespace osb::api {
namespace {

Result<std::vector<Task>> parse(std::string_view text) { return parse_tasks(parse_json(text).value()); }

TEST(TaskExecutorMessages, TasksSurviveTheWayThereAndBack) {
  const std::string text =
      R"([{"name":"a-0","process":{"command":["sh","-c"],"args":["true"],"env":[{"name":"A","value":"1"},)"
      R"({"name":"B","valueFrom":{"fieldRef":{"fieldPath":"x"}}}],"workingDir":"/tmp","timeoutSeconds":5},)"
      R"("processStatus":{"terminated":{"exitCode":3,"reason":"Failed","startedAt":"2026-01-02T03:04:05Z",)"
      R"("finishedAt":null}}},{"name":"b","podTemplateSpec":{"spec":{}},"processStatus":{"running":)"
      R"({"startedAt":"2026-01-02T03:04:05Z"}}},{"name":"c","process":{"command":["x"]},)"
      R"("processStatus":{"waiting":{"reason":"Pending"}}}])";
  const auto tasks = parse(text);
  ASSERT_TRUE(tasks) << tasks.error().message;
  EXPECT_EQ(json::serialize(to_json(*tasks)), text);
}

TEST(TaskExecutorMessages, NullMeansNoTasksAndKeysMayBeInAnyCase) {
  EXPECT_TRUE(parse("null")->empty());
  EXPECT_EQ(parse(R"([{"NAME":"x","unknown":1}])")->at(0).name, "x");
}

TEST(TaskExecutorMessages, WrongFieldsAreNamed) {
  for (const auto& [text, field] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"name":"x"})", "array"},
           {R"([1])", "/0"},
           {R"([{"name":1}])", "/0/name"},
           {R"([{"process":{"command":"sh"}}])", "/0/process/command"},
           {R"([{"process":{"env":[{"name":[]}]}}])", "/0/process/env/0/name"},
           {R"([{"process":{"timeoutSeconds":"5"}}])", "/0/process/timeoutSeconds"},
           {R"([{"processStatus":{"running":{"startedAt":"soon"}}}])", "/0/processStatus/running/startedAt"}}) {
    const auto tasks = parse(text);
    ASSERT_FALSE(tasks) << text;
    EXPECT_NE(tasks.error().message.find(field), std::string::npos) << tasks.error().message;
  }
}

TEST(TaskExecutorMessages, TimesHaveWholeSeconds) {
  Task task;
  task.status = TaskRunning{Timestamp(std::chrono::microseconds(1'500'000))};
  EXPECT_EQ(json::serialize(to_json(task)),
            R"({"name":"","processStatus":{"running":{"startedAt":"1970-01-01T00:00:01Z"}}})");
}

}  // namespace
}  // namespace osb::api
