#include "tls/transport.h"

#include <fstream>
#include <optional>
#include <sys/socket.h>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/await.h"
#include "support/temp_dir.h"
#include "tls/openssl.h"
#include "tls/test_certificates.h"

namespace osb::tls {
namespace {

using namespace std::chrono_literals;
using http::Transport;
using osb::testing::await;
using ::testing::AllOf;
using testing::Certificate;
using ::testing::HasSubstr;

using Made = Result<std::unique_ptr<Transport>>;

class TlsTest : public ::testing::Test {
 protected:
  static ClientOptions trusting(const Certificate& authority) {
    ClientOptions options;
    options.ca_pem = authority.certificate_pem();
    return options;
  }

  std::pair<UniqueFd, UniqueFd> sockets() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    return {UniqueFd(fds[0]), UniqueFd(fds[1])};
  }
  std::unique_ptr<Transport> plain(UniqueFd fd) {
    return http::make_plain_transport(io_.get_executor(), std::move(fd));
  }

  // Both sides of a handshake.
  void shake(const Certificate& leaf, const ClientOptions& options, const std::string& host) {
    auto server = ServerContext::make(leaf.identity());
    ASSERT_TRUE(server) << server.error().message;
    auto client = ClientContext::make(options);
    ASSERT_TRUE(client) << client.error().message;
    auto [ours, theirs] = sockets();
    client_.reset();
    server_.reset();
    net::co_spawn(io_, accept_tls(*server, plain(std::move(ours)), 5s),
                  [this](std::exception_ptr, Made made) { server_ = std::move(made); });
    client_ = await(io_, connect_tls(*client, plain(std::move(theirs)), host, 5s));
    io_.restart();
    while (!server_ && io_.run_one() > 0) {
    }
    ASSERT_TRUE(server_);
  }

  void expect_refused(const Certificate& leaf, const ClientOptions& options, const std::string& host,
                      const std::string& why) {
    shake(leaf, options, host);
    ASSERT_FALSE(*client_) << why;
    EXPECT_EQ(client_->error().code, Code::Unavailable);
    EXPECT_THAT(client_->error().message, AllOf(HasSubstr("certificate verify failed for " + host), HasSubstr(why)));
    EXPECT_FALSE(*server_);
  }

  net::io_context io_{1};
  Certificate root_{{.common_name = "root", .alt_names = "", .authority = true}};
  Certificate leaf_{{.common_name = "box", .alt_names = "DNS:box.example,DNS:*.wild.example,IP:127.0.0.1,IP:::1"},
                    &root_};
  std::optional<Made> client_, server_;
};

TEST_F(TlsTest, NamesAndAddressesOfTheCertificateAreAccepted) {
  for (const char* host : {"box.example", "a.wild.example", "127.0.0.1", "::1"}) {
    shake(leaf_, trusting(root_), host);
    ASSERT_TRUE(*client_) << host << ": " << client_->error().message;
    ASSERT_TRUE(*server_) << host << ": " << server_->error().message;
  }
}

TEST_F(TlsTest, CertificateOfAnotherHostIsRefused) {
  expect_refused(leaf_, trusting(root_), "other.example", "it is for box.example, *.wild.example");
  expect_refused(leaf_, trusting(root_), "a.b.wild.example", "hostname mismatch");
  expect_refused(leaf_, trusting(root_), "127.0.0.2", "IP address mismatch");
}

TEST_F(TlsTest, ExpiredCertificateIsRefused) {
  const Certificate old({.common_name = "box", .alt_names = "DNS:box.example", .valid_from = -7200, .valid_to = -60},
                        &root_);
  expect_refused(old, trusting(root_), "box.example", "expired");
}

TEST_F(TlsTest, SelfSignedCertificateIsRefusedUnlessTrusted) {
  const Certificate self({.common_name = "box", .alt_names = "DNS:box.example"});
  expect_refused(self, trusting(root_), "box.example", "CA file");
  expect_refused(leaf_, {}, "box.example", "CA file");  // a private CA is not among the system's
  shake(self, trusting(self), "box.example");
  EXPECT_TRUE(*client_);
  shake(self, {.ca_file = {}, .ca_pem = {}, .insecure = true, .identity = {}}, "whatever.example");
  EXPECT_TRUE(*client_);
}

net::awaitable<std::size_t> pump(Transport& from, std::string& into, std::size_t size) {
  char buffer[100'000];
  while (into.size() < size) {
    const auto got = co_await from.read_some(buffer);
    if (!got || *got == 0) break;
    into.append(buffer, *got);
  }
  co_return into.size();
}

TEST_F(TlsTest, BigTransfersRunBothWaysAtOnce) {
  shake(leaf_, trusting(root_), "box.example");
  ASSERT_TRUE(*client_ && *server_);
  std::string up(8'000'000, '\0'), down(5'000'001, '\0');
  for (std::size_t i = 0; i < up.size(); ++i) up[i] = static_cast<char>(i * 7 >> 5);
  for (std::size_t i = 0; i < down.size(); ++i) down[i] = static_cast<char>(i * 13 >> 4);
  int sent = 0;
  const auto count = [&sent](std::exception_ptr e, Result<void> result) { sent += !e && result; };
  net::co_spawn(io_, (**client_)->write_all(up), count);
  net::co_spawn(io_, (**server_)->write_all(down), count);
  std::string got_up, got_down;
  net::co_spawn(io_, pump(***server_, got_up, up.size()), [](std::exception_ptr, std::size_t) {});
  await(io_, pump(***client_, got_down, down.size()));
  io_.restart();
  while (got_up.size() < up.size() && io_.run_one() > 0) {
  }
  EXPECT_TRUE(got_up == up);
  EXPECT_TRUE(got_down == down);
  EXPECT_EQ(sent, 2);
}

TEST_F(TlsTest, ReaderThatStopsHoldsTheWriterBack) {
  shake(leaf_, trusting(root_), "box.example");
  ASSERT_TRUE(*client_ && *server_);
  const std::string chunk(64 * 1024, 'x');
  std::size_t taken = 0;
  for (;;) {
    const iovec piece{const_cast<char*>(chunk.data()), chunk.size()};
    const auto io = (**server_)->try_write({&piece, 1});
    if (io.kind == Transport::Io::Kind::Again) {
      EXPECT_EQ(io.wait_for, Transport::Wait::Writable);
      break;
    }
    ASSERT_EQ(io.kind, Transport::Io::Kind::Done);
    taken += io.bytes;
    ASSERT_LT(taken, 16U << 20) << "the peer does not read, so this must end";
  }
  // The record that did not fit is repeated, and nothing is lost or doubled.
  bool sent = false;
  net::co_spawn(io_, (**server_)->write_all(chunk), [&](std::exception_ptr e, Result<void> r) { sent = !e && r; });
  std::string got;
  await(io_, pump(***client_, got, taken + chunk.size()));
  EXPECT_EQ(got.size(), taken + chunk.size());
  EXPECT_EQ(got.find_first_not_of('x'), std::string::npos);
  EXPECT_TRUE(sent);
}

TEST_F(TlsTest, SmallPiecesArriveAsWritten) {
  shake(leaf_, trusting(root_), "box.example");
  ASSERT_TRUE(*client_ && *server_);
  std::string a = "head ", b = "", c(40'000, 'b'), d = " tail";
  iovec pieces[] = {{a.data(), a.size()}, {b.data(), 0}, {c.data(), c.size()}, {d.data(), d.size()}};
  ASSERT_TRUE(await(io_, (**client_)->write_all(std::span<iovec>(pieces))));
  std::string got;
  await(io_, pump(***server_, got, a.size() + c.size() + d.size()));
  EXPECT_TRUE(got == a + c + d);
}

TEST_F(TlsTest, ShutdownIsAnEndAndReadingGoesOn) {
  shake(leaf_, trusting(root_), "box.example");
  ASSERT_TRUE(*client_ && *server_);
  ASSERT_TRUE(await(io_, (**client_)->write_all("question")));
  (**client_)->shutdown_write();
  std::string got;
  EXPECT_EQ(await(io_, pump(***server_, got, 1000)), 8U);
  char byte;
  const auto end = await(io_, (**server_)->read_some({&byte, 1}));
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(*end, 0U);
  ASSERT_TRUE(await(io_, (**server_)->write_all("answer")));
  (**server_)->shutdown_write();
  got.clear();
  EXPECT_EQ(await(io_, pump(***client_, got, 1000)), 6U);
  EXPECT_EQ(got, "answer");
}

TEST_F(TlsTest, CloseNotifyGetsThroughAFullSocket) {
  shake(leaf_, trusting(root_), "box.example");
  ASSERT_TRUE(*client_ && *server_);
  const std::string chunk(16 * 1024, 'x');
  const iovec piece{const_cast<char*>(chunk.data()), chunk.size()};
  std::size_t taken = 0;
  Transport::Io io;
  // Ends with a whole record in the socket, and no room for another one.
  while ((io = (**server_)->try_write({&piece, 1})).kind == Transport::Io::Kind::Done) taken += io.bytes;
  bool sent = false;
  net::co_spawn(io_, (**server_)->write_all(chunk), [&](std::exception_ptr e, Result<void> r) {
    sent = !e && r;
    (**server_)->shutdown_write();
  });
  std::size_t lingered = 1;
  std::string sink;
  net::co_spawn(io_, pump(***server_, sink, 1), [&](std::exception_ptr, std::size_t n) { lingered = n; });
  std::string got;
  await(io_, pump(***client_, got, std::string::npos));
  EXPECT_EQ(got.size(), taken + chunk.size());
  char byte;
  const auto end = await(io_, (**client_)->read_some({&byte, 1}));
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(*end, 0U);
  EXPECT_TRUE(sent);
}

TEST_F(TlsTest, StreamCutOffIsAFailureNotAnEnd) {
  for (const bool allowed : {false, true}) {
    auto options = trusting(root_);
    options.allow_truncation = allowed;
    shake(leaf_, options, "box.example");
    ASSERT_TRUE(*client_ && *server_);
    ASSERT_TRUE(await(io_, (**server_)->write_all("half an ans")));
    (**server_)->close();
    char buffer[100];
    const auto part = await(io_, (**client_)->read_some(buffer));
    ASSERT_TRUE(part);
    EXPECT_EQ(*part, 11U);
    const auto end = await(io_, (**client_)->read_some(buffer));
    ASSERT_EQ(end.has_value(), allowed);
    if (allowed) {
      EXPECT_EQ(*end, 0U);
    } else {
      EXPECT_EQ(end.error().sys_errno, ECONNRESET);
    }
  }
}

TEST_F(TlsTest, WritingToAPeerThatIsGoneFailsWithoutASignal) {
  shake(leaf_, trusting(root_), "box.example");
  ASSERT_TRUE(*client_ && *server_);
  (**client_)->close();
  const auto sent = await(io_, (**server_)->write_all(std::string(1 << 20, 'x')));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().sys_errno, EPIPE);
  (**server_)->close();
  (**server_)->close();
  EXPECT_FALSE(await(io_, (**server_)->wait(Transport::Wait::Readable)));
}

TEST_F(TlsTest, CloseWakesAReader) {
  shake(leaf_, trusting(root_), "box.example");
  ASSERT_TRUE(*client_ && *server_);
  char byte;
  std::optional<Result<std::size_t>> ended;
  net::co_spawn(io_, (**server_)->read_some({&byte, 1}),
                [&](std::exception_ptr, Result<std::size_t> got) { ended = got; });
  io_.restart();
  io_.poll();
  (**server_)->close();
  while (!ended && io_.run_one() > 0) {
  }
  ASSERT_TRUE(ended);
  EXPECT_FALSE(*ended);
}

// A client of OpenSSL's own on the other end, blocking, in its thread.
int connect_with(SSL_CTX* context, int fd) {
  const SslPtr ssl(SSL_new(context));
  SSL_set_fd(ssl.get(), fd);
  return SSL_connect(ssl.get());
}

TEST_F(TlsTest, Tls11AndUnknownProtocolsAreRefused) {
  auto server = ServerContext::make(leaf_.identity());
  ASSERT_TRUE(server);
  const auto outcome = [&](auto prepare) {
    const std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context(SSL_CTX_new(TLS_client_method()));
    prepare(context.get());
    auto [ours, theirs] = sockets();
    int connected = 0;
    std::thread client([&context, &connected, fd = theirs.get()] { connected = connect_with(context.get(), fd); });
    const auto made = await(io_, accept_tls(*server, plain(std::move(ours)), 5s));
    client.join();
    EXPECT_EQ(connected == 1, made.has_value());
    return made.has_value();
  };
  EXPECT_TRUE(outcome([](SSL_CTX* c) { SSL_CTX_set_max_proto_version(c, TLS1_2_VERSION); }));
  EXPECT_TRUE(outcome([](SSL_CTX* c) {
    SSL_CTX_set_alpn_protos(c, reinterpret_cast<const unsigned char*>("\x02h2\x08http/1.1"), 12);
  }));
  EXPECT_FALSE(
      outcome([](SSL_CTX* c) { SSL_CTX_set_alpn_protos(c, reinterpret_cast<const unsigned char*>("\x02h2"), 3); }));
  EXPECT_FALSE(outcome([](SSL_CTX* c) {
    SSL_CTX_set_cipher_list(c, "ALL:@SECLEVEL=0");
    SSL_CTX_set_min_proto_version(c, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(c, TLS1_1_VERSION);
  }));
}

TEST_F(TlsTest, PeersThatDoNotSpeakTlsAreNamed) {
  auto server = ServerContext::make(leaf_.identity());
  auto client = ClientContext::make(trusting(root_));
  ASSERT_TRUE(server && client);
  {
    auto [ours, theirs] = sockets();
    ASSERT_GT(::write(theirs.get(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27), 0);
    const auto made = await(io_, accept_tls(*server, plain(std::move(ours)), 5s));
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().message, HasSubstr("plain HTTP"));
  }
  {
    auto [ours, theirs] = sockets();
    ASSERT_GT(::write(theirs.get(), "HTTP/1.1 400 Bad Request\r\n\r\n", 28), 0);
    const auto made = await(io_, connect_tls(*client, plain(std::move(ours)), "box.example", 5s));
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().message, AllOf(HasSubstr("box.example"), HasSubstr("does not speak TLS")));
  }
  {
    auto [ours, theirs] = sockets();
    theirs.reset();
    const auto made = await(io_, connect_tls(*client, plain(std::move(ours)), "box.example", 5s));
    ASSERT_FALSE(made);
  }
  {
    auto [ours, theirs] = sockets();
    const auto made = await(io_, connect_tls(*client, plain(std::move(ours)), "box.example", 20ms));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Code::Timeout);
    EXPECT_THAT(made.error().message, HasSubstr("box.example"));
  }
}

TEST_F(TlsTest, CertificatesAreReloadedFromTheirFiles) {
  const osb::testing::TempDir dir;
  const auto write = [&](const Identity& identity) {
    std::ofstream(dir / "chain.pem") << identity.chain_pem;
    std::ofstream(dir / "key.pem") << identity.key_pem;
  };
  EXPECT_FALSE(ServerContext::from_files(dir / "chain.pem", dir / "key.pem"));
  write(leaf_.identity());
  auto context = ServerContext::from_files(dir / "chain.pem", dir / "key.pem");
  ASSERT_TRUE(context) << context.error().message;
  const auto first = (*context)->current();

  const Certificate other({.common_name = "new", .alt_names = "DNS:new.example"}, &root_);
  write({other.certificate_pem(), leaf_.key_pem()});
  const auto mixed = (*context)->reload();
  ASSERT_FALSE(mixed);
  EXPECT_THAT(mixed.error().message, AllOf(HasSubstr("chain.pem"), HasSubstr("does not belong")));
  EXPECT_EQ((*context)->current(), first);

  write(other.identity());
  ASSERT_TRUE((*context)->reload());
  auto client = ClientContext::make(trusting(root_));
  auto [ours, theirs] = sockets();
  std::optional<Made> accepted;
  net::co_spawn(io_, accept_tls(*context, plain(std::move(ours)), 5s),
                [&](std::exception_ptr, Made made) { accepted = std::move(made); });
  EXPECT_TRUE(await(io_, connect_tls(*client, plain(std::move(theirs)), "new.example", 5s)));
  accepted.reset();
}

TEST_F(TlsTest, UnusableCertificatesAreExplained) {
  EXPECT_THAT(ServerContext::make({"", leaf_.key_pem()}).error().message, HasSubstr("no certificate"));
  EXPECT_THAT(ServerContext::make({leaf_.certificate_pem(), "junk"}).error().message, HasSubstr("private key"));
  ClientOptions options;
  options.ca_file = "/nonexistent/ca.pem";
  EXPECT_THAT(ClientContext::make(options).error().message, HasSubstr("/nonexistent/ca.pem"));
  options.ca_file.clear();
  options.ca_pem = "junk";
  EXPECT_FALSE(ClientContext::make(options));
}

}  // namespace
}  // namespace osb::tls
