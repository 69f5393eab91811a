#include "sys/pty.h"

#include <fcntl.h>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace osb::sys {
namespace {

TEST(Pty, CarriesBytesBothWays) {
  auto pty = open_pty();
  ASSERT_TRUE(pty) << pty.error().message;
  EXPECT_TRUE(::isatty(pty->terminal.get()));
  EXPECT_EQ(::fcntl(pty->master.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::fcntl(pty->terminal.get(), F_GETFD), FD_CLOEXEC);
  char buffer[64];
  ASSERT_EQ(::write(pty->terminal.get(), "out\n", 4), 4);
  ASSERT_EQ(::read(pty->master.get(), buffer, sizeof buffer), 5);
  EXPECT_EQ(std::string(buffer, 5), "out\r\n");
  ASSERT_EQ(::write(pty->master.get(), "in\n", 3), 3);
  ASSERT_EQ(::read(pty->terminal.get(), buffer, sizeof buffer), 3);
  EXPECT_EQ(std::string(buffer, 3), "in\n");
}

TEST(Pty, SizesAreSetAndRead) {
  auto pty = open_pty({.columns = 100, .rows = 40});
  ASSERT_TRUE(pty) << pty.error().message;
  EXPECT_EQ(window_size(pty->terminal.get())->columns, 100);
  ASSERT_TRUE(set_window_size(pty->master.get(), {.columns = 7, .rows = 9}));
  EXPECT_EQ(window_size(pty->terminal.get())->columns, 7);
  EXPECT_EQ(window_size(pty->terminal.get())->rows, 9);
}

TEST(Pty, SomethingElseIsNoTerminal) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(set_window_size(null.get(), {}).error().sys_errno, ENOTTY);
  EXPECT_EQ(window_size(null.get()).error().sys_errno, ENOTTY);
}

}  // namespace
}  // namespace osb::sys
