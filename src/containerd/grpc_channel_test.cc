#include "containerd/grpc_channel.h"

#include <sys/un.h>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>

#include "async/task_group.h"
#include "containerd/grpc_frames.h"
#include "intercept/h2_fixture.h"
#include "support/await.h"
#include "support/temp_dir.h"

namespace osb::containerd {
namespace {

using intercept::testing::H2Peer;
using osb::testing::await;
using ::testing::HasSubstr;

const http::Headers kHead{{"content-type", "application/grpc"}};
const http::Headers kGood{{"grpc-status", "0"}};

// A gRPC server of which each test writes the answers.
class GrpcChannelTest : public ::testing::Test {
 protected:
  GrpcChannelTest() {
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path_.string().copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
  }
  ~GrpcChannelTest() override {
    if (peer_) peer_->serve = nullptr;  // it refers to variables of the test
    await(io_, channel_.close());
    await(io_, tasks_.close());
  }

  std::unique_ptr<GrpcCall> begin(const std::string& request = "ask") {
    auto call = await(io_, channel_.begin("/a.B/C", request, {{"containerd-namespace", "k8s.io"}}));
    EXPECT_TRUE(call) << call.error().message;
    return std::move(*call);
  }
  // The other end of the connection, which calls `serve` with each request's head.
  H2Peer& accept(std::function<void(H2Peer&, std::int32_t)> serve) {
    auto transport = http::make_plain_transport(io_.get_executor(),
                                                UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    peer_ = std::make_unique<H2Peer>(std::move(transport), intercept::H2Session::Role::Server);
    peer_->serve = std::move(serve);
    tasks_.spawn("peer", peer_->run());
    return *peer_;
  }
  Result<std::optional<std::string>> read(GrpcCall& call) { return await(io_, call.read()); }

  osb::testing::TempDir dir_;
  std::filesystem::path path_ = dir_ / "socket";
  UniqueFd listener_;
  net::io_context io_{1};
  TaskGroup tasks_{io_.get_executor()};
  std::unique_ptr<H2Peer> peer_;
  GrpcChannel channel_{io_.get_executor(), path_.string()};
};

TEST_F(GrpcChannelTest, ACallGoesOutWithItsMetadataAndComesBackWithItsAnswers) {
  auto call = begin();
  H2Peer& peer = accept(
      [](H2Peer& to, std::int32_t id) { to.answer(id, 200, grpc_frame("one") + grpc_frame("two"), kHead, kGood); });
  EXPECT_EQ(*read(*call), "one");
  EXPECT_EQ(*read(*call), "two");
  EXPECT_EQ(*read(*call), std::nullopt);
  const H2Peer::Seen& seen = peer.streams.begin()->second;
  EXPECT_EQ(seen.head.path, "/a.B/C");
  EXPECT_EQ(seen.head.fields.get("te"), "trailers");
  EXPECT_EQ(seen.head.fields.get("containerd-namespace"), "k8s.io");
  EXPECT_EQ(seen.body, grpc_frame("ask"));
  EXPECT_TRUE(seen.ended);
}

TEST_F(GrpcChannelTest, TheServersErrorsKeepTheirKindAndText) {
  struct {
    const char* status;
    Code code;
  } rows[] = {{"5", Code::NotFound},  {"6", Code::Conflict},     {"12", Code::Unsupported},
              {"13", Code::Internal}, {"14", Code::Unavailable}, {"77", Code::Internal}};
  const char* status = "";
  std::unique_ptr<GrpcCall> call = begin();
  accept([&](H2Peer& to, std::int32_t id) {
    to.answer(id, 200, "", kHead, {{"grpc-status", status}, {"grpc-message", "no%20space %25"}});
  });
  for (const auto& row : rows) {
    status = row.status;
    if (!call) call = begin();
    const auto answer = read(*call);
    call.reset();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, row.code) << row.status;
    EXPECT_EQ(answer.error().message, "no space %");
  }
}

TEST_F(GrpcChannelTest, WhatIsNotGrpcIsNoAnswer) {
  struct {
    const char* why;
    int status;
    http::Headers head;
    std::string body;
    http::Headers trailers;
  } rows[] = {
      {"a web page", 200, {{"content-type", "text/html"}}, "<html>", {}},
      {"an error of HTTP", 502, kHead, "", {}},
      {"no status at the end", 200, kHead, grpc_frame("x"), {{"x", "y"}}},
      {"half a message", 200, kHead, grpc_frame("hello").substr(0, 7), kGood},
      {"a compressed message", 200, kHead, "\1" + grpc_frame("x").substr(1), kGood},
  };
  std::size_t at = 0;
  auto call = begin();
  accept([&](H2Peer& to, std::int32_t id) {
    to.answer(id, rows[at].status, rows[at].body, rows[at].head, rows[at].trailers);
  });
  for (; at < std::size(rows); ++at) {
    if (!call) call = begin();
    Result<std::optional<std::string>> answer = read(*call);
    for (int i = 0; answer && *answer && i < 2; ++i) answer = read(*call);
    call.reset();
    EXPECT_FALSE(answer) << rows[at].why;
  }
}

TEST_F(GrpcChannelTest, AServerThatSendsMoreThanIsReadHasToWait) {
  const std::string piece(1 << 20, 'x');
  auto call = begin();
  H2Peer& peer = accept([&](H2Peer& to, std::int32_t id) {
    std::string all;
    for (int i = 0; i < 8; ++i) all += grpc_frame(piece);
    to.answer(id, 200, std::move(all), kHead, kGood);
  });
  ASSERT_EQ(*read(*call), piece);
  EXPECT_GT(peer.streams.begin()->second.to_send.size(), 3u << 20) << "the rest stays there";
  for (int i = 1; i < 8; ++i) ASSERT_EQ(*read(*call), piece);
  EXPECT_EQ(*read(*call), std::nullopt);
}

TEST_F(GrpcChannelTest, ADroppedCallIsCancelledAndItsConnectionServesTheNext) {
  auto call = begin();
  H2Peer& peer = accept([](H2Peer&, std::int32_t) {});
  ASSERT_TRUE(await(io_, peer.until([&] { return peer.streams.size() == 1; })));
  const std::int32_t id = peer.streams.begin()->first;
  call.reset();
  ASSERT_TRUE(await(io_, peer.until([&] { return peer.streams[id].closed.has_value(); })));
  EXPECT_EQ(peer.streams[id].closed, intercept::H2Code::Cancel);
  peer.serve = [](H2Peer& to, std::int32_t next) { to.answer(next, 200, grpc_frame("two"), kHead, kGood); };
  EXPECT_EQ(*read(*begin()), "two");
}

TEST_F(GrpcChannelTest, ABrokenConnectionFailsItsCallsAndTheNextCallMakesANewOne) {
  auto call = begin();
  ::close(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const auto broken = read(*call);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::Unavailable);
  auto next = begin();
  accept([](H2Peer& to, std::int32_t id) { to.answer(id, 200, grpc_frame("new"), kHead, kGood); });
  EXPECT_EQ(*read(*next), "new");
}

TEST_F(GrpcChannelTest, ASocketThatIsNotThereIsNamed) {
  GrpcChannel nowhere(io_.get_executor(), (dir_ / "nothing").string());
  const auto call = await(io_, nowhere.begin("/a.B/C", "", {}));
  ASSERT_FALSE(call);
  EXPECT_EQ(call.error().code, Code::Unavailable);
  EXPECT_THAT(call.error().message, HasSubstr("nothing"));
}

}  // namespace
}  // namespace osb::containerd
