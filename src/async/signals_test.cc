#include "async/signals.h"

#include <signal.h>

#include <gtest/gtest.h>

#include "support/await.h"

namespace osb {
namespace {

using testing::await;

TEST(SignalSet, GivesWhatCameSinceTheLastCall) {
  net::io_context io(1);
  SignalSet signals(io.get_executor(), {SIGUSR1, SIGUSR2});
  ::raise(SIGUSR2);
  EXPECT_EQ(*await(io, signals.next()), SIGUSR2);
  ::raise(SIGUSR1);
  EXPECT_EQ(*await(io, signals.next()), SIGUSR1);
}

TEST(SignalSet, CancelEndsTheWait) {
  net::io_context io(1);
  SignalSet signals(io.get_executor(), {SIGUSR1});
  auto next = net::co_spawn(io, signals.next(), net::use_future);
  io.poll();
  signals.cancel();
  io.restart();
  io.run();
  EXPECT_EQ(next.get().error().code, Code::Cancelled);
}

TEST(IgnoreSigpipe, AWriterGetsEpipe) {
  ignore_sigpipe();
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  ::close(fds[0]);
  EXPECT_EQ(::write(fds[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  ::close(fds[1]);
  ::signal(SIGPIPE, SIG_DFL);
}

}  // namespace
}  // namespace osb
