#include "execd/daemon/options.h"

#include <cstring>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>

#include "execd/run/environment.h"
#include "support/temp_dir.h"

namespace osb::execd {
namespace {

std::expected<Options, OptionsError> parse(std::vector<std::string_view> args, const Environment& env = {}) {
  return parse_options(args, env);
}

TEST(Options, DefaultsAreTheContracts) {
  const auto options = parse({});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->port, 44772);
  EXPECT_TRUE(options->access_token.empty());
  EXPECT_EQ(options->log_level, LogLevel::Info);
  EXPECT_EQ(options->log_outputs, std::vector<std::string>{"stdout"});
  EXPECT_EQ(options->graceful_shutdown_timeout, std::chrono::milliseconds(200));
  EXPECT_EQ(options->jupyter_idle_poll_interval, std::chrono::milliseconds(100));
  EXPECT_TRUE(options->opens_port());
}

TEST(Options, AFlagBeatsItsVariable) {
  const Environment env = {{"EXECD_ACCESS_TOKEN", "from-env"}, {"EXECD_API_GRACE_SHUTDOWN", "3s"}};
  EXPECT_EQ(parse({}, env)->access_token, "from-env");
  EXPECT_EQ(parse({}, env)->graceful_shutdown_timeout, std::chrono::seconds(3));
  EXPECT_EQ(parse({"--access-token=from-flag"}, env)->access_token, "from-flag");
  EXPECT_EQ(parse({"-graceful-shutdown-timeout", "1m30s"}, env)->graceful_shutdown_timeout, std::chrono::seconds(90));
}

TEST(Options, ReadingStopsAtTheFirstPositionalArgument) {
  const auto options = parse({"--port", "1", "tail", "-f", "/dev/null", "--", "ignored"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->port, 1);
  EXPECT_TRUE(options->entrypoint.empty());
}

TEST(Options, TheEntrypointFollowsTwoDashes) {
  const auto options = parse({"--port=1", "--", "sh", "-c", "--port=2"});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->port, 1);
  EXPECT_EQ(options->entrypoint, (std::vector<std::string>{"sh", "-c", "--port=2"}));
}

TEST(Options, InheritedSocketsReplaceThePortUnlessOneIsGiven) {
  EXPECT_FALSE(parse({"--listen-fd=3"})->opens_port());
  EXPECT_FALSE(parse({"--listen-fd=3", "--port=0"})->opens_port());
  EXPECT_TRUE(parse({"--listen-fd=3", "--port=8080"})->opens_port());
  EXPECT_TRUE(parse({"--port=0"})->opens_port()) << "the kernel picks one";
  EXPECT_EQ(parse({"--listen-fd=3", "--listen-fd", "4"})->listen_fds, (std::vector<int>{3, 4}));
}

TEST(Options, CgroupFilesAreNamed) {
  const auto options = parse({"--cgroup-file=cpu.stat=/proc/self/fd/6", "--cgroup-file", "memory.max=/x=y"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->cgroup_files,
            (std::map<std::string, std::string>{{"cpu.stat", "/proc/self/fd/6"}, {"memory.max", "/x=y"}}));
  for (const char* wrong : {"--cgroup-file=cpu.stat", "--cgroup-file==/x", "--cgroup-file=cpu.stat="}) {
    EXPECT_FALSE(parse({wrong})) << wrong;
  }
}

TEST(Options, TheDiskReserveHasTwoNumbers) {
  const auto options = parse({"--disk-reserve=1073741824,100000"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->reserve.bytes, 1 << 30);
  EXPECT_EQ(options->reserve.inodes, 100'000);
  EXPECT_EQ(options->isolation.reserve.inodes, 100'000) << "it holds in isolated sessions too";
  EXPECT_EQ(parse({}, {{"EXECD_DISK_RESERVE", "-1,7"}})->reserve.bytes, -1);
  for (const char* wrong : {"--disk-reserve=", "--disk-reserve=1", "--disk-reserve=1,", "--disk-reserve=-2,2"}) {
    EXPECT_FALSE(parse({wrong})) << wrong;
  }
}

TEST(Options, ErrorsSayWhatIsWrongAndHowToExit) {
  struct {
    const char* why;
    std::vector<std::string_view> args;
    Environment env;
    int exit_status;
  } rows[] = {
      {"unknown flag", {"--nope"}, {}, 2},
      {"no value", {"--port"}, {}, 2},
      {"port too large", {"--port=65536"}, {}, 2},
      {"trailing text", {"--port=80x"}, {}, 2},
      {"duration without unit", {"--shutdown-timeout=5"}, {}, 2},
      {"negative time", {"--shutdown-timeout=-1s"}, {}, 2},
      {"variable that is no duration", {}, {{"EXECD_API_GRACE_SHUTDOWN", "soon"}}, 1},
      {"Jupyter host without scheme", {}, {{"JUPYTER_HOST", "localhost"}}, 1},
  };
  for (const auto& row : rows) {
    const auto options = parse(row.args, row.env);
    ASSERT_FALSE(options) << row.why;
    EXPECT_EQ(options.error().exit_status, row.exit_status) << row.why;
    EXPECT_FALSE(options.error().message.empty());
  }
}

TEST(Options, FlagsAndVariablesWinOverTheFileOfSessions) {
  const testing::TempDir dir;
  const std::string file = dir / "isolation.toml";
  std::ofstream(file) << "diff_max_bytes = 1\nupper_max_bytes = 2\nallowed_writable = ['/file']\n";
  const auto options = parse({"--isolation-diff-max-bytes=10", "--isolation-config", file, "--listen-fd=3"},
                             {{"EXECD_ISOLATION_ALLOWED_WRITABLE", "/variable"}});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->isolation.diff_max_bytes, 10u);
  EXPECT_EQ(options->isolation.upper_max_bytes, 2u);
  EXPECT_EQ(options->isolation.allowed_writable, std::vector<std::string>{"/variable"});
  EXPECT_EQ(options->listen_fds, std::vector<int>{3});
  EXPECT_TRUE(parse({}, {{"EXECD_ISOLATION_CONFIG", ""}}));
  const auto missing = parse({}, {{"EXECD_ISOLATION_CONFIG", dir / "missing"}});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().exit_status, 1);
}

TEST(Options, LogLevelsAreThoseOfTheContract) {
  const std::pair<const char*, LogLevel> rows[] = {
      {"0", LogLevel::Off},  {"2", LogLevel::Off},  {"3", LogLevel::Error}, {"4", LogLevel::Warn},
      {"5", LogLevel::Info}, {"6", LogLevel::Info}, {"7", LogLevel::Debug}, {"99", LogLevel::Debug},
  };
  for (const auto& [text, level] : rows) EXPECT_EQ(parse({"--log-level", text})->log_level, level) << text;
}

TEST(Options, TheLogGoesWhereTheVariablesSay) {
  using Outputs = std::vector<std::string>;
  EXPECT_EQ(parse({}, {{"OPENSANDBOX_LOG_OUTPUT", "stdout, /x.log,"}})->log_outputs, (Outputs{"stdout", "/x.log"}));
  EXPECT_EQ(parse({}, {{"OPENSANDBOX_LOG_OUTPUT", "a"}, {"EXECD_LOG_FILE", "/b"}})->log_outputs, Outputs{"/b"});
}

TEST(Options, APollIntervalThatIsNotPositiveIsTheDefault) {
  EXPECT_EQ(parse({"--jupyter-idle-poll-interval=0s"})->jupyter_idle_poll_interval, std::chrono::milliseconds(100));
  EXPECT_EQ(parse({"--jupyter-idle-poll-interval=-1s"})->jupyter_idle_poll_interval, std::chrono::milliseconds(100));
}

TEST(Options, LinesOfTheEntrypointsLogGetTimesWhenAsked) {
  EXPECT_FALSE(parse({})->entrypoint_log_times);
  EXPECT_TRUE(parse({"--entrypoint-log-times=lines"})->entrypoint_log_times);
  EXPECT_FALSE(parse({"--entrypoint-log-times", "none"})->entrypoint_log_times);
  EXPECT_FALSE(parse({"--entrypoint-log-times=yes"}));
}

TEST(WipeSecrets, TakesTheTokenOutOfMapEnvironmentAndArguments) {
  char token[] = "EXECD_ACCESS_TOKEN=secret";
  char other[] = "EXECD_ACCESS_TOKEN_FILE=kept";
  char* environment[] = {token, other, nullptr};
  char program[] = "execd";
  char joined[] = "--access-token=secret";
  char flag[] = "-access-token";
  char value[] = "secret";
  char dashes[] = "--";
  char after[] = "--access-token=kept";
  char* argv[] = {program, joined, flag, value, dashes, after, nullptr};
  Environment env = parse_environ(environment);
  wipe_secrets(env, argv, environment);
  EXPECT_FALSE(env.contains("EXECD_ACCESS_TOKEN"));
  EXPECT_TRUE(env.contains("EXECD_ACCESS_TOKEN_FILE"));
  EXPECT_STREQ(token, "EXECD_ACCESS_TOKEN=******");
  EXPECT_STREQ(other, "EXECD_ACCESS_TOKEN_FILE=kept");
  EXPECT_STREQ(joined, "--access-token=******");
  EXPECT_STREQ(value, "******");
  EXPECT_STREQ(after, "--access-token=kept");
}

}  // namespace
}  // namespace osb::execd
