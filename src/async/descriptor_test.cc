#include "async/descriptor.h"

#include <signal.h>
#include <string>
#include <sys/eventfd.h>

#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include "support/await.h"
#include "sys/pty.h"
#include "sys/spawn.h"
#include "sys/syscall.h"

namespace osb {
namespace {

using testing::await;

class DescriptorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pipe = sys::make_pipe();
    ASSERT_TRUE(pipe);
    reader_.emplace(*Descriptor::open(io_.get_executor(), std::move(pipe->read)));
    writer_.emplace(*Descriptor::open(io_.get_executor(), std::move(pipe->write)));
    ::signal(SIGPIPE, SIG_IGN);
  }
  void TearDown() override { ::signal(SIGPIPE, SIG_DFL); }

  net::io_context io_{1};
  std::optional<Descriptor> reader_, writer_;
};

net::awaitable<std::string> read_to_end(Descriptor& from) {
  std::string out;
  char buffer[8192];
  for (;;) {
    const auto got = co_await from.read_some(buffer);
    EXPECT_TRUE(got) << got.error().message;
    if (!got || *got == 0) co_return out;
    out.append(buffer, *got);
  }
}

TEST_F(DescriptorTest, WritesMoreThanAPipeHoldsAndReadsToTheEnd) {
  std::string big(1 << 20, 'x');
  big.back() = 'y';
  bool written = false;
  net::co_spawn(
      io_,
      [&]() -> net::awaitable<void> {
        written = (co_await writer_->write_all(big)).has_value();
        writer_->close();
      },
      [](std::exception_ptr e) { EXPECT_FALSE(e); });
  EXPECT_EQ(await(io_, read_to_end(*reader_)), big);
  EXPECT_TRUE(written);
}

TEST_F(DescriptorTest, AGoneReaderIsEpipe) {
  reader_->close();
  const auto sent = await(io_, writer_->write_all("x"));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().sys_errno, EPIPE);
}

TEST_F(DescriptorTest, CancelAndCloseEndAPendingRead) {
  char c;
  const auto ended_by = [&](auto end) {
    auto result = net::co_spawn(io_, reader_->read_some({&c, 1}), net::use_future);
    io_.restart();
    io_.poll();
    EXPECT_NE(result.wait_for(std::chrono::seconds(0)), std::future_status::ready);
    end();
    io_.restart();
    io_.run();
    return result.get().error().code;
  };
  EXPECT_EQ(ended_by([&] { reader_->cancel(); }), Code::Cancelled);
  EXPECT_EQ(ended_by([&] { reader_->close(); }), Code::Cancelled);
  EXPECT_FALSE(reader_->is_open());
  EXPECT_EQ(await(io_, reader_->read_some({&c, 1})).error().code, Code::Cancelled);
}

TEST_F(DescriptorTest, TryReadNeverWaits) {
  char buffer[8];
  EXPECT_EQ(reader_->try_read(buffer).error().code, Code::Unavailable);
  ASSERT_TRUE(await(io_, writer_->write_all("abc")));
  EXPECT_EQ(*reader_->try_read(buffer), 3U);
  writer_->close();
  EXPECT_EQ(*reader_->try_read(buffer), 0U);
}

TEST_F(DescriptorTest, ReleaseGivesTheDescriptorBack) {
  const int number = reader_->fd();
  const UniqueFd fd = reader_->release();
  EXPECT_EQ(fd.get(), number);
  EXPECT_FALSE(reader_->is_open());
  ASSERT_TRUE(await(io_, writer_->write_all("z")));
  char c = 0;
  EXPECT_EQ(::read(fd.get(), &c, 1), 1);
  EXPECT_EQ(c, 'z');
}

TEST_F(DescriptorTest, TheEndOfATerminalIsAnEnd) {
  auto pty = sys::open_pty();
  ASSERT_TRUE(pty);
  auto master = Descriptor::open(io_.get_executor(), std::move(pty->master));
  ASSERT_TRUE(master);
  ASSERT_EQ(::write(pty->terminal.get(), "bye\n", 4), 4);
  pty->terminal.reset();
  EXPECT_EQ(await(io_, read_to_end(*master)), "bye\r\n");
}

TEST_F(DescriptorTest, APidfdIsReadableWhenItsProcessHasEnded) {
  sys::SpawnPlan plan;
  plan.program = "/bin/true";
  plan.argv = {"true"};
  auto child = sys::spawn(plan);
  ASSERT_TRUE(child);
  auto pidfd = Descriptor::open(io_.get_executor(), UniqueFd(::dup(child->pidfd.get())));
  ASSERT_TRUE(pidfd);
  ASSERT_TRUE(await(io_, pidfd->wait_readable()));
  EXPECT_TRUE(sys::reap(*child)->ok());
}

TEST_F(DescriptorTest, ABadDescriptorIsRefused) { EXPECT_FALSE(Descriptor::open(io_.get_executor(), UniqueFd())); }

}  // namespace
}  // namespace osb
