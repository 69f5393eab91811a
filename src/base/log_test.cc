#include "base/log.h"

#include <fstream>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb {
namespace {

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { (void)configure_log({.level = LogLevel::Warn}); }

  void start(LogOptions options = {}) {
    options.outputs = {(dir_ / "log").string()};
    const auto done = configure_log(options);
    ASSERT_TRUE(done) << done.error().message;
  }

  std::string read(const std::string& name = "log") {
    std::ifstream in(dir_ / name, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  // Without the time, which is always 24 characters.
  std::string behind_time() { return read().substr(25); }

  testing::TempDir dir_;
};

TEST_F(LogTest, TextHasTimeLevelEventAndKeys) {
  start();
  const std::string id = "abc";
  log_info("sandbox created", {{"id", id}, {"ms", 12}, {"ok", true}, {"load", 0.5}, {"size", std::size_t{7}}});
  EXPECT_EQ(behind_time(), "info  sandbox created id=abc ms=12 ok=true load=0.5 size=7\n");
  EXPECT_EQ(read()[10], 'T');
  EXPECT_EQ(read()[19], '.');
  EXPECT_EQ(read()[23], 'Z');
}

TEST_F(LogTest, JsonHasTheSameOnOneLine) {
  start({.format = LogFormat::Json});
  log_warn("slow", {{"path", "/a \"b\""}, {"ms", -3}, {"ratio", 1.0 / 0.0}});
  const std::string line = read();
  EXPECT_EQ(line.substr(0, 9), "{\"time\":\"");
  EXPECT_EQ(line.substr(33), R"(","level":"warn","event":"slow","path":"/a \"b\"","ms":-3,"ratio":null})"
                             "\n");
}

TEST_F(LogTest, HostileValuesCannotForgeLinesKeysOrTerminalSequences) {
  start();
  log_info("got", {{"name", "x\n2025-01-02T03:04:05.678Z error owned"},
                   {"esc", "\x1b[2J"},
                   {"csi",
                    "\xC2\x9B"
                    "2J\x7f"},
                   {"pair", "a=b"},
                   {"space", "a b"},
                   {"empty", ""},
                   {"bad", "\xff"}});
  EXPECT_EQ(behind_time(),
            "info  got name=\"x\\n2025-01-02T03:04:05.678Z error owned\" esc=\"\\u001b[2J\" csi=\"\\u009b2J\\u007f\" "
            "pair=\"a=b\" space=\"a b\" empty=\"\" bad=\"\xEF\xBF\xBD\"\n");
}

TEST_F(LogTest, EventAndKeyAreEscapedToo) {
  start();
  log_info("line\nbreak", {{"k\ney", 1}});
  EXPECT_EQ(behind_time(), "info  \"line\\nbreak\" \"k\\ney\"=1\n");
}

TEST_F(LogTest, LevelsBelowTheThresholdAreSilent) {
  start({.level = LogLevel::Warn});
  log_debug("no");
  log_info("no");
  EXPECT_FALSE(log_enabled(LogLevel::Info));
  EXPECT_TRUE(log_enabled(LogLevel::Error));
  log_error("yes");
  EXPECT_EQ(behind_time(), "error yes\n");
}

TEST_F(LogTest, OffSilencesErrorsToo) {
  start({.level = LogLevel::Off});
  log_error("no");
  EXPECT_EQ(read(), "");
}

TEST_F(LogTest, LoggerKeepsItsKeysAndCopiesAreIndependent) {
  start();
  const Logger request = Logger().with("request_id", std::string("r1"));
  const Logger command = request.with("command", 5u);
  command.info("started", {{"pid", 42}});
  request.error("failed");
  const std::string text = read();
  EXPECT_NE(text.find("info  started request_id=r1 command=5 pid=42\n"), std::string::npos) << text;
  EXPECT_NE(text.find("error failed request_id=r1\n"), std::string::npos) << text;
}

TEST_F(LogTest, FilesRotateAndTheOldestGoes) {
  start({.rotate_bytes = 100, .keep_files = 3});
  for (int i = 0; i < 6; ++i) log_info("event of some length, enough for two a file", {{"n", i}});
  EXPECT_NE(read("log").find("n=5"), std::string::npos);
  EXPECT_NE(read("log.1").find("n=4"), std::string::npos);
  EXPECT_NE(read("log.2").find("n=3"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "log.3"));
}

TEST_F(LogTest, RotationCountsWhatAFileAlreadyHeld) {
  std::ofstream(dir_ / "log") << std::string(95, 'x') << '\n';
  start({.rotate_bytes = 100});
  log_info("next");
  EXPECT_EQ(read("log.1").size(), 96u);
  EXPECT_EQ(behind_time(), "info  next\n");
}

TEST_F(LogTest, AFileThatCannotBeOpenedIsAnErrorAndChangesNothing) {
  start();
  const auto done = configure_log({.outputs = {(dir_ / "missing/log").string()}});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().sys_errno, ENOENT);
  EXPECT_NE(done.error().message.find("missing/log"), std::string::npos);
  log_info("still here");
  EXPECT_EQ(behind_time(), "info  still here\n");
}

TEST_F(LogTest, EveryOutputGetsTheLine) {
  ASSERT_TRUE(configure_log({.outputs = {(dir_ / "a").string(), (dir_ / "b").string()}}));
  log_info("twice");
  EXPECT_EQ(read("a"), read("b"));
  EXPECT_NE(read("a"), "");
}

TEST_F(LogTest, LinesOfThreadsStayWhole) {
  start({.rotate_bytes = 64 << 10, .keep_files = 20});
  const std::string value(100, 'v');
  const auto work = [&] {
    for (int i = 0; i < 1000; ++i) log_info("event", {{"value", value}});
  };
  std::thread other(work);
  work();
  other.join();
  int lines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line); ++lines) EXPECT_EQ(line.size(), 25 + 11 + 7 + 100u) << line;
  }
  EXPECT_EQ(lines, 2000);
}

TEST_F(LogTest, LoggingKeepsErrno) {
  start();
  errno = EAGAIN;
  log_info("event");
  EXPECT_EQ(errno, EAGAIN);
}

TEST(LogLevel, ReadsNamesInAnyCase) {
  EXPECT_EQ(parse_log_level("DEBUG"), LogLevel::Debug);
  EXPECT_EQ(parse_log_level("warning"), LogLevel::Warn);
  EXPECT_FALSE(parse_log_level("loud"));
}

}  // namespace
}  // namespace osb
