#include "http/reactor.h"

#include <chrono>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "http/transport.h"

namespace osb::http {
namespace {

// A transport and the other end of it.
struct Pair {
  explicit Pair(net::io_context& io) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    near = make_plain_transport(io.get_executor(), UniqueFd(ends[0]));
    far = UniqueFd(ends[1]);
    char byte;
    EXPECT_EQ(near->try_read({&byte, 1}).kind, Transport::Io::Kind::Again);  // from now on it has to wait
  }
  void say_something() const { EXPECT_EQ(::write(far.get(), "x", 1), 1); }
  std::unique_ptr<Transport> near;
  UniqueFd far;
};

TEST(Reactor, ALoopWithoutWaitersRunsOutOfWork) {
  net::io_context io(1);
  const Pair first(io), second(io);
  bool done = false;
  // The second wait begins while the events of the first are served, and ends in the same go.
  const auto wait_twice = [&]() -> net::awaitable<void> {
    EXPECT_TRUE(co_await first.near->wait(Transport::Wait::Readable));
    second.say_something();
    EXPECT_TRUE(co_await second.near->wait(Transport::Wait::Readable));
    done = true;
  };
  net::co_spawn(io, wait_twice, net::detached);
  io.poll();
  first.say_something();
  io.run_for(std::chrono::minutes(1));
  EXPECT_TRUE(done);
  EXPECT_TRUE(io.stopped()) << "something keeps the loop running";
}

TEST(Reactor, AHangupIsToldOnceAndBytesAreNone) {
  net::io_context io(1);
  Pair watched(io), other(io);
  int told = 0;
  const auto tell = [&] { ++told; };
  // The reactor reads events as long as any waiter exists.
  const auto serve_events = [&] {
    net::co_spawn(io, other.near->wait(Transport::Wait::Readable), net::detached);
    io.restart();
    io.poll();
    other.say_something();
    io.run_for(std::chrono::minutes(1));
    char byte;
    EXPECT_EQ(other.near->try_read({&byte, 1}).kind, Transport::Io::Kind::Done);
    EXPECT_EQ(other.near->try_read({&byte, 1}).kind, Transport::Io::Kind::Again);
  };
  watched.near->on_hangup(tell);
  watched.say_something();
  serve_events();
  EXPECT_EQ(told, 0);
  ::shutdown(watched.far.get(), SHUT_WR);  // what was said before is still unread
  serve_events();
  EXPECT_EQ(told, 1);
  watched.far.reset();
  serve_events();
  EXPECT_EQ(told, 1);
  watched.near->on_hangup(tell);  // it has happened
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace osb::http
