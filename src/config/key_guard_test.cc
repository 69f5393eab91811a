#include "config/key_guard.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace osb::config {
namespace {

const Environment kNothing;

ServerConfig with_key(std::string key) {
  ServerConfig config;
  config.server.api_key = std::move(key);
  return config;
}

// A terminal: what is written to `master` is typed at `slave`.
struct Terminal {
  Terminal() {
    master = UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY));
    ::grantpt(master.get());
    ::unlockpt(master.get());
    slave = UniqueFd(::open(::ptsname(master.get()), O_RDWR | O_NOCTTY));
  }
  UniqueFd master, slave;
};

TEST(KeyGuardTest, AKeyIsEnough) { EXPECT_EQ(check_api_key(with_key("k"), kNothing, -1, -1), KeyGuard::Protected); }

TEST(KeyGuardTest, WithoutAKeyTheConfirmationIsExactlyYes) {
  for (const std::string& key : {"", "  \t"}) {
    const auto refused = check_api_key(with_key(key), kNothing, -1, -1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Forbidden);
    EXPECT_NE(refused.error().message.find("OPENSANDBOX_INSECURE_SERVER"), std::string::npos);
  }
  EXPECT_EQ(check_api_key(with_key(""), {{{"OPENSANDBOX_INSECURE_SERVER", "YES"}}}, -1, -1), KeyGuard::Acknowledged);
  for (const std::string& word : {"yes", "YES ", "1", ""}) {
    EXPECT_FALSE(check_api_key(with_key(""), {{{"OPENSANDBOX_INSECURE_SERVER", word}}}, -1, -1)) << word;
  }
}

TEST(KeyGuardTest, APipeIsNotAsked) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  const UniqueFd read(fds[0]), write(fds[1]);
  ASSERT_EQ(::write(write.get(), "YES\n", 4), 4);
  EXPECT_FALSE(check_api_key(with_key(""), kNothing, read.get(), write.get()));
}

TEST(KeyGuardTest, ATerminalIsAskedInRed) {
  const struct {
    const char* typed;
    bool passes;
  } rows[] = {{"YES\n", true}, {"yes\n", false}, {"\n", false}, {"YES please\n", false}};
  for (const auto& row : rows) {
    const Terminal terminal;
    ASSERT_GE(terminal.slave.get(), 0);
    ASSERT_GT(::write(terminal.master.get(), row.typed, std::strlen(row.typed)), 0);
    int prompt[2];
    ASSERT_EQ(::pipe(prompt), 0);
    const UniqueFd shown(prompt[0]), show(prompt[1]);
    EXPECT_EQ(check_api_key(with_key(""), kNothing, terminal.slave.get(), show.get()).has_value(), row.passes)
        << row.typed;
    char text[512] = {};
    ASSERT_GT(::read(shown.get(), text, sizeof text - 1), 0);
    EXPECT_NE(std::string(text).find("\x1b[31m"), std::string::npos);
  }
}

TEST(KeyGuardTest, ASilentTerminalMeansNo) {
  const Terminal terminal;
  ASSERT_GE(terminal.slave.get(), 0);
  const UniqueFd null(::open("/dev/null", O_WRONLY));
  EXPECT_FALSE(check_api_key(with_key(""), kNothing, terminal.slave.get(), null.get(), std::chrono::milliseconds(20)));
}

}  // namespace
}  // namespace osb::config
