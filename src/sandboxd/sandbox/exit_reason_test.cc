#include "sandboxd/sandbox/exit_reason.h"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

TEST(ExitReason, TheEntrypointsOwnRecordCountsFirst) {
  const struct {
    const char* why;
    std::optional<sys::ExitStatus> entrypoint, process;
    bool oom;
    int code;
    const char* reason;
  } rows[] = {
      {"exit code", sys::ExitStatus{3, 0}, sys::ExitStatus{0, 9}, false, 3, "EXITED"},
      {"signal", sys::ExitStatus{0, 15}, std::nullopt, false, 143, "SIGNALLED"},
      {"PID 1 was killed", std::nullopt, sys::ExitStatus{0, 9}, false, 137, "SIGNALLED"},
      {"out of memory", std::nullopt, sys::ExitStatus{0, 9}, true, 137, "OUT_OF_MEMORY"},
      {"a shell tells of its killed child", sys::ExitStatus{137, 0}, std::nullopt, true, 137, "OUT_OF_MEMORY"},
      {"a child was killed, the rest went on", sys::ExitStatus{1, 0}, std::nullopt, true, 1, "EXITED"},
      {"not known", std::nullopt, std::nullopt, false, 137, "SIGNALLED"},
  };
  for (const auto& row : rows) {
    const auto exit = describe_exit(row.entrypoint, row.process, row.oom);
    EXPECT_EQ(exit.code, row.code) << row.why;
    EXPECT_EQ(exit_reason(exit), row.reason) << row.why;
    EXPECT_FALSE(exit_message(exit, std::nullopt).empty());
    if (row.oom && exit.code == 137) EXPECT_EQ(exit_message(exit, 256 << 20), "out of memory (limit 256 MiB)");
    if (row.oom && exit.code == 137) EXPECT_TRUE(exit_message(exit, 256 << 20, false).contains("below its limit"));
  }
}

TEST(ExitReason, WhyNothingWasStartedIsForeignText) {
  const testing::TempDir dir;
  const std::string path = (dir.path() / "exit.json").string();
  EXPECT_EQ(read_not_started(path).why, "");
  const std::pair<std::string, std::string> rows[] = {
      {R"({"code":0})", ""},
      {R"({"code":127,"error":"sh: not found"})", "sh: not found"},
      {R"({"code":127,"error":"two\nlines\u001b[2J"})", "two?lines?[2J"},
      {R"({"code":127,"error":7})", ""},
      {R"({"error":")" + std::string(3000, 'x') + R"("})", std::string(1000, 'x')},
  };
  for (const auto& [text, error] : rows) {
    std::ofstream(path, std::ios::trunc) << text;
    EXPECT_EQ(read_not_started(path).why, error) << text;
    EXPECT_FALSE(read_not_started(path).hook_failed) << text;
  }
  std::ofstream(path, std::ios::trunc) << R"({"code":3,"error":"preStart hook failed","hook_failed":true})";
  EXPECT_TRUE(read_not_started(path).hook_failed);
  std::ofstream(path, std::ios::trunc) << R"({"code":3,"hook_failed":true})";
  EXPECT_FALSE(read_not_started(path).hook_failed);
}

TEST(ExitReason, ARecordThatIsNoRecordSaysNothing) {
  const testing::TempDir dir;
  const std::string path = (dir.path() / "exit.json").string();
  EXPECT_FALSE(read_exit_record(path));
  for (const char* text : {"", "{", "[]", "{}", R"({"code":"7"})", R"({"code":700})", R"({"signal":-1})"}) {
    std::ofstream(path, std::ios::trunc) << text;
    EXPECT_FALSE(read_exit_record(path)) << text;
  }
  std::ofstream(path, std::ios::trunc) << R"({"code":7,"signal":0,"finished_at":"x"})";
  ASSERT_TRUE(read_exit_record(path));
  EXPECT_EQ(read_exit_record(path)->code, 7);
}

TEST(ExitReason, ALinkOrAPipeInItsPlaceIsNotRead) {
  const testing::TempDir dir;
  std::ofstream(dir.path() / "elsewhere") << R"({"code":7})";
  std::filesystem::create_symlink("elsewhere", dir.path() / "exit.json");
  EXPECT_FALSE(read_exit_record((dir.path() / "exit.json").string()));
  ASSERT_EQ(::mkfifo((dir.path() / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(read_exit_record((dir.path() / "pipe").string()));
}

}  // namespace
}  // namespace osb::sandboxd
