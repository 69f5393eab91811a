#include "async/frame_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "support/await.h"

namespace osb {
namespace {

using testing::await;

class FrameSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    left_.emplace(*FrameSocket::open(io_.get_executor(), UniqueFd(ends[0])));
    right_.emplace(*FrameSocket::open(io_.get_executor(), UniqueFd(ends[1])));
  }
  std::optional<FrameSocket::Frame> read(FrameSocket& from) {
    auto frame = await(io_, from.read());
    EXPECT_TRUE(frame) << frame.error().message;
    return frame ? std::move(*frame) : std::nullopt;
  }

  net::io_context io_{1};
  std::optional<FrameSocket> left_, right_;
};

TEST_F(FrameSocketTest, FramesKeepTheirBordersAndOrder) {
  ASSERT_TRUE(left_->send("one"));
  ASSERT_TRUE(left_->send(""));
  ASSERT_TRUE(left_->send("three"));
  EXPECT_EQ(read(*right_)->body, "one");
  EXPECT_EQ(read(*right_)->body, "");
  EXPECT_EQ(read(*right_)->body, "three");
}

TEST_F(FrameSocketTest, MoreThanTheKernelHoldsArrivesOnceItIsRead) {
  const std::string big(FrameSocket::kMaxFrame, 'x');
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(left_->send(big + "").has_value());
  ASSERT_TRUE(left_->send("end"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read(*right_)->body.size(), big.size());
  EXPECT_EQ(read(*right_)->body, "end");
}

TEST_F(FrameSocketTest, EachDescriptorComesWithItsFrame) {
  struct stat want[2], got{};
  UniqueFd files[] = {UniqueFd(::open("/dev/null", O_RDONLY)), UniqueFd(::open("/dev/zero", O_RDONLY))};
  ASSERT_EQ(::fstat(files[0].get(), &want[0]), 0);
  ASSERT_EQ(::fstat(files[1].get(), &want[1]), 0);
  ASSERT_TRUE(left_->send("plain"));
  ASSERT_TRUE(left_->send("first", std::move(files[0])));
  ASSERT_TRUE(left_->send("plain"));
  ASSERT_TRUE(left_->send("second", std::move(files[1])));
  EXPECT_LT(read(*right_)->descriptor.get(), 0);
  auto first = read(*right_);
  ASSERT_EQ(::fstat(first->descriptor.get(), &got), 0);
  EXPECT_EQ(got.st_rdev, want[0].st_rdev);
  EXPECT_EQ(::fcntl(first->descriptor.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_LT(read(*right_)->descriptor.get(), 0);
  const auto second = read(*right_);
  EXPECT_EQ(second->body, "second");
  ASSERT_EQ(::fstat(second->descriptor.get(), &got), 0);
  EXPECT_EQ(got.st_rdev, want[1].st_rdev);
}

TEST_F(FrameSocketTest, TheEndBetweenFramesIsNoError) {
  ASSERT_TRUE(left_->send("last"));
  left_.reset();
  EXPECT_EQ(read(*right_)->body, "last");
  EXPECT_FALSE(read(*right_));
  ASSERT_FALSE(right_->send("to nobody"));
}

TEST_F(FrameSocketTest, BrokenStreamsAreErrors) {
  struct {
    const char* why;
    std::string_view bytes;
  } const rows[] = {{"too long", std::string_view("\xff\xff\xff\x7f", 4)},
                    {"no descriptor came", std::string_view("\x01\0\0\x80x", 5)},
                    {"ends inside a frame", std::string_view("\x05\0\0\0x", 5)},
                    {"ends inside a length", std::string_view("\x05", 1)}};
  for (const auto& row : rows) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    auto socket = *FrameSocket::open(io_.get_executor(), UniqueFd(ends[0]));
    ASSERT_EQ(::write(ends[1], row.bytes.data(), row.bytes.size()), static_cast<ssize_t>(row.bytes.size()));
    ::close(ends[1]);
    EXPECT_FALSE(await(io_, socket.read())) << row.why;
  }
  EXPECT_EQ(left_->send(std::string(FrameSocket::kMaxFrame + 1, 'x')).error().code, Code::TooLarge);
}

TEST_F(FrameSocketTest, ClosingEndsAWaitingRead) {
  std::optional<Code> code;
  net::co_spawn(
      io_,
      [](FrameSocket& from, std::optional<Code>& out) -> net::awaitable<void> {
        const auto frame = co_await from.read();
        if (!frame) out = frame.error().code;
      }(*right_, code),
      net::detached);
  io_.poll();
  right_->close();
  io_.restart();
  io_.run();
  EXPECT_EQ(code, Code::Cancelled);
}

}  // namespace
}  // namespace osb
