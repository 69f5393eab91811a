#include "http/splice.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "async/race.h"
#include "async/timer.h"
#include "http/prefixed_transport.h"
#include "http/socket_address.h"
#include "support/await.h"

namespace osb::http {
namespace {

using osb::testing::await;

// client <-> (near | far) <-> server, over TCP; the splice is between near and far.
class SpliceTest : public ::testing::Test {
 protected:
  SpliceTest() {
    std::tie(client_, near_) = connected();
    std::tie(server_, far_) = connected();
  }

  std::pair<std::unique_ptr<Transport>, std::unique_ptr<Transport>> connected() {
    auto where = to_sockaddr(Address::tcp("127.0.0.1", 0));
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(listener.get(), where->get(), where->length), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&where->storage), &where->length), 0);
    UniqueFd a(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(a.get(), where->get(), where->length), 0);
    UniqueFd b(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return {make_plain_transport(io_.get_executor(), std::move(a)),
            make_plain_transport(io_.get_executor(), std::move(b))};
  }

  void start() {
    net::co_spawn(
        io_,
        [](SpliceTest& test) -> net::awaitable<void> {
          test.moved_ = co_await splice(*test.near_, *test.far_, test.pipes_);
          test.ended_.set();
        }(*this),
        net::detached);
  }
  void wait_for_end() {
    await(io_, [](SpliceTest& test) -> net::awaitable<void> { (void)co_await test.ended_.wait(); }(*this));
  }
  Result<void> send(Transport& to, std::string text) {
    return await(io_, [](Transport& t, std::string s) -> net::awaitable<Result<void>> {
      co_return co_await t.write_all(s);
    }(to, std::move(text)));
  }
  // All bytes until the end of the stream, or `size` of them.
  Result<std::string> receive(Transport& from, std::size_t size = -1) {
    return await(io_, [](Transport& t, std::size_t want) -> net::awaitable<Result<std::string>> {
      std::string out;
      std::vector<char> buffer(64 * 1024);
      while (out.size() < want) {
        auto got = co_await t.read_some(buffer);
        if (!got) co_return Failure(got.error());
        if (*got == 0) break;
        out.append(buffer.data(), *got);
      }
      co_return out;
    }(from, size));
  }

  net::io_context io_{1};
  PipePool pipes_;
  std::unique_ptr<Transport> client_, near_, far_, server_;
  SplicedBytes moved_;
  Event ended_{io_.get_executor()};
};

TEST_F(SpliceTest, MovesBytesBothWaysAndKeepsHalfClosedSides) {
  start();
  ASSERT_TRUE(send(*client_, "question"));
  client_->shutdown_write();
  EXPECT_EQ(receive(*server_), "question") << "the server sees the end of the client's side";
  ASSERT_TRUE(send(*server_, "a late answer"));
  server_->shutdown_write();
  EXPECT_EQ(receive(*client_), "a late answer");
  wait_for_end();
  EXPECT_EQ(moved_.to_second, 8u);
  EXPECT_EQ(moved_.to_first, 13u);
}

TEST_F(SpliceTest, HoldsASenderBackAndLosesNothing) {
  start();
  std::string big(32 << 20, '\0');
  for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 2654435761u >> 24);
  const auto both = [&]() -> net::awaitable<std::string> {
    using namespace race;
    std::string got;
    const auto write = [&]() -> net::awaitable<void> {
      (void)co_await client_->write_all(big);
      client_->shutdown_write();
    };
    const auto read = [&]() -> net::awaitable<void> {
      std::vector<char> buffer(100'000);
      for (;;) {
        auto n = co_await server_->read_some(buffer);
        if (!n || *n == 0) co_return;
        got.append(buffer.data(), *n);
      }
    };
    co_await (write() && read());
    co_return got;
  };
  EXPECT_TRUE(await(io_, both()) == big);
  server_->shutdown_write();
  wait_for_end();
  EXPECT_EQ(moved_.to_second, big.size());
}

TEST_F(SpliceTest, AResetIsPassedOn) {
  start();
  ASSERT_TRUE(send(*client_, "x"));
  ASSERT_EQ(receive(*server_, 1), "x");
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(server_->native_fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  server_->close();
  const auto got = receive(*client_);
  ASSERT_FALSE(got) << "an orderly end would hide that bytes are missing";
  EXPECT_EQ(got.error().sys_errno, ECONNRESET);
  wait_for_end();
}

TEST_F(SpliceTest, AnIdleConnectionHoldsNoPipe) {
  start();
  ASSERT_TRUE(send(*client_, "one"));
  ASSERT_EQ(receive(*server_, 3), "one");
  ASSERT_TRUE(send(*server_, "two"));
  ASSERT_EQ(receive(*client_, 3), "two");
  // The direction that has moved "one" has found its socket empty before it could move more.
  client_->shutdown_write();
  ASSERT_EQ(receive(*server_), "");
  server_->shutdown_write();
  wait_for_end();
  EXPECT_GE(pipes_.idle(), 1u);
  EXPECT_LE(pipes_.idle(), 2u);
}

TEST_F(SpliceTest, BytesReadBeforeComeFirst) {
  auto prefixed = make_prefixed_transport("first ", std::move(near_));
  ASSERT_TRUE(send(*client_, "second"));
  client_->shutdown_write();
  EXPECT_EQ(receive(*prefixed), "first second");
}

TEST_F(SpliceTest, BytesReadBeforeComeInAnyPieces) {
  auto prefixed = make_prefixed_transport("abc", std::move(near_));
  char byte = 0;
  for (const char want : {'a', 'b', 'c'}) {
    ASSERT_TRUE(await(io_, prefixed->wait(Transport::Wait::Readable)));
    const auto io = prefixed->try_read({&byte, 1});
    ASSERT_EQ(io.kind, Transport::Io::Kind::Done);
    EXPECT_EQ(byte, want);
  }
  EXPECT_EQ(prefixed->try_read({&byte, 1}).kind, Transport::Io::Kind::Again);
}

}  // namespace
}  // namespace osb::http
