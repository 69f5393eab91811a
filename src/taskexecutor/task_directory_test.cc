#include "taskexecutor/task_directory.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "taskexecutor/launch.h"

namespace osb::taskexecutor {
namespace {

TaskRecord record_named(const std::string& name) {
  TaskRecord record;
  record.name = name;
  record.process = api::TaskProcess{{"sleep", "1"}, {}, {}, "", 7};
  return record;
}

class TaskDirectories : public ::testing::Test {
 protected:
  TaskDirectory make(const std::string& name) {
    auto made = TaskDirectory::create(data(), record_named(name));
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    return std::move(*made);
  }
  std::string data() const { return temp.path().string(); }
  void write(const std::string& path, std::string_view text) { std::ofstream(temp / path) << text; }

  osb::testing::TempDir temp;
};

TEST_F(TaskDirectories, RecordsSurviveASave) {
  const TaskDirectory directory = make("a");
  TaskRecord record = record_named("a");
  record.deleted_at = Timestamp(std::chrono::seconds(1'700'000'000));
  record.status = {TaskState::Failed, 3, Timestamp(std::chrono::seconds(5)), Timestamp(std::chrono::microseconds(7))};
  ASSERT_TRUE(directory.save(record));
  const auto loaded = TaskDirectory::open(data(), "a").value().load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->status, record.status);
  EXPECT_EQ(loaded->deleted_at, record.deleted_at);
  EXPECT_EQ(loaded->process->timeout_seconds, 7);
}

TEST_F(TaskDirectories, NamesThatLeaveTheDirectoryAreRefused) {
  for (const std::string name : {"", ".", "..", "../x", "a/b", ".hidden"}) {
    EXPECT_FALSE(TaskDirectory::create(data(), record_named(name))) << name;
  }
  EXPECT_FALSE(TaskDirectory::create(data(), record_named(std::string("a\0b", 3))));
  EXPECT_FALSE(TaskDirectory::create(data(), record_named(std::string(300, 'a'))));
  EXPECT_TRUE(TaskDirectory::list(data())->empty());
}

TEST_F(TaskDirectories, AnExistingDirectoryBlocksItsName) {
  std::filesystem::create_directory(temp / "a");
  const auto made = TaskDirectory::create(data(), record_named("a"));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::Conflict);
}

TEST_F(TaskDirectories, LeftoversOfCutOffChangesAreDeleted) {
  std::filesystem::create_directories(temp / ".osb-0123" / "x");
  make("a");
  EXPECT_EQ(*TaskDirectory::list(data()), std::vector<std::string>{"a"});
  EXPECT_FALSE(std::filesystem::exists(temp / ".osb-0123"));
}

TEST_F(TaskDirectories, StatusFollowsTheFiles) {
  const TaskDirectory directory = make("a");
  EXPECT_EQ(directory.inspect(true).state, TaskState::Pending);
  write("a/pid", "5");
  EXPECT_EQ(directory.inspect(true).state, TaskState::Running);
  const TaskStatus crashed = directory.inspect(false);
  EXPECT_EQ(crashed.state, TaskState::Failed);
  EXPECT_EQ(crashed.exit_code, 137);
  EXPECT_EQ(crashed.finished_at, crashed.started_at);
  write("a/exit", "4");
  EXPECT_EQ(directory.inspect(true).exit_code, 4);
  write("a/exit", "0");
  EXPECT_EQ(directory.inspect(false).state, TaskState::Succeeded);
}

TEST_F(TaskDirectories, BrokenRecordsAreErrors) {
  const TaskDirectory directory = make("a");
  for (const char* text : {"", "{", "[]", "{}", R"({"name":"a","process":{"command":1}})",
                           R"({"name":"a","status":{"subStatuses":[{"startedAt":"x"}]}})"}) {
    write("a/task.json", text);
    EXPECT_FALSE(directory.load()) << text;
  }
}

TEST_F(TaskDirectories, ASupervisorWithAnotherStartTimeIsNotOurs) {
  const TaskDirectory directory = make("a");
  ASSERT_TRUE(directory.save_supervisor({::getpid(), 1, "another boot", ""}));
  EXPECT_FALSE(find_supervisor(directory));
  ASSERT_EQ(directory.supervisor()->pid, ::getpid());
  write("a/supervisor.json", R"({"pid":-1})");
  EXPECT_FALSE(directory.supervisor());
}

TEST_F(TaskDirectories, TheMainContainerIsFoundByItsEnvironment) {
  EXPECT_EQ(find_main_container("main", data()).error().code, Code::NotFound);
  for (const auto& [pid, name] :
       std::initializer_list<std::pair<const char*, const char*>>{{"7", "other"}, {"9", "main"}}) {
    std::filesystem::create_directories(temp / pid / "ns");
    write(std::string(pid) + "/environ", std::string("A=") + pid + '\0' + "SANDBOX_MAIN_CONTAINER=" + name + '\0');
    for (const char* kind : {"uts", "ipc", "net", "pid", "mnt"}) write(std::string(pid) + "/ns/" + kind, "");
  }
  const auto found = find_main_container("main", data());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->env.at("A"), "9");
  EXPECT_EQ(found->namespaces.size(), 5u);
}

}  // namespace
}  // namespace osb::taskexecutor
