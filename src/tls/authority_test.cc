#include "tls/authority.h"

#include <fcntl.h>
#include <fstream>
#include <sys/socket.h>
#include <sys/stat.h>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/race.h"
#include "support/await.h"
#include "support/temp_dir.h"
#include "tls/leaf_contexts.h"
#include "tls/openssl.h"
#include "tls/test_certificates.h"
#include "tls/transport.h"

namespace osb::tls {
namespace {

using namespace std::chrono_literals;
using osb::testing::await;
using ::testing::HasSubstr;
using ::testing::Not;

using Made = Result<std::unique_ptr<http::Transport>>;

// A handshake between a client that trusts the authority and a server with the context; the client's outcome.
Result<void> shake_hands(const CertificateAuthority& authority, std::shared_ptr<const ServerContext> server,
                         const std::string& host) {
  ClientOptions options;
  options.ca_pem = authority.certificate_pem();
  const auto client = ClientContext::make(options);
  if (!client) return Failure(client.error());
  int fds[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  net::io_context io(1);
  auto near = http::make_plain_transport(io.get_executor(), UniqueFd(fds[0]));
  auto far = http::make_plain_transport(io.get_executor(), UniqueFd(fds[1]));
  const auto both = [&]() -> net::awaitable<std::tuple<Made, Made>> {
    using namespace race;
    co_return co_await (connect_tls(*client, std::move(near), host, 20s) && accept_tls(server, std::move(far), 20s));
  };
  auto [connected, accepted] = await(io, both());
  if (!connected) return Failure(connected.error());
  return {};
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(CertificateAuthority, SignsForOneHost) {
  auto authority = CertificateAuthority::create();
  ASSERT_TRUE(authority) << authority.error().message;
  const auto server = authority->issue("api.example.com");
  ASSERT_TRUE(server) << server.error().message;
  const auto right = shake_hands(*authority, *server, "api.example.com");
  EXPECT_TRUE(right) << right.error().message;
  const auto wrong = shake_hands(*authority, *server, "other.example.com");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("it is for api.example.com"));
  const auto stranger = CertificateAuthority::create();
  const auto untrusted = shake_hands(*stranger, *server, "api.example.com");
  ASSERT_FALSE(untrusted);
  EXPECT_THAT(untrusted.error().message, HasSubstr("certificate verify failed"));
}

TEST(CertificateAuthority, LeavesPassTheStrictestCheck) {
  const auto authority = CertificateAuthority::create();
  const auto server = authority->issue(std::string(63, 'a') + "." + std::string(63, 'b') + ".example.com");
  ASSERT_TRUE(server) << server.error().message;
  X509* leaf = SSL_CTX_get0_certificate((*server)->current().get());
  const std::string root_pem = authority->certificate_pem();
  const BioPtr pem = memory_bio(root_pem);
  const X509Ptr root(PEM_read_bio_X509(pem.get(), nullptr, nullptr, nullptr));
  ASSERT_TRUE(leaf != nullptr && root);
  const std::unique_ptr<X509_STORE, Freed<X509_STORE_free>> store(X509_STORE_new());
  X509_STORE_add_cert(store.get(), root.get());
  X509_STORE_set_flags(store.get(), X509_V_FLAG_X509_STRICT | X509_V_FLAG_CHECK_SS_SIGNATURE);  // as Python 3.13 does
  X509_STORE_set_purpose(store.get(), X509_PURPOSE_SSL_SERVER);
  const std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>> check(X509_STORE_CTX_new());
  X509_STORE_CTX_init(check.get(), store.get(), leaf, nullptr);
  EXPECT_EQ(X509_verify_cert(check.get()), 1) << X509_verify_cert_error_string(X509_STORE_CTX_get_error(check.get()));
}

TEST(CertificateAuthority, NamesThatAreNoHostsGetNothing) {
  const auto authority = CertificateAuthority::create();
  for (const char* bad : {"", "10.0.0.1", "*.example.com", "a.com,DNS:b.com", "a.com\n"}) {
    EXPECT_FALSE(authority->issue(bad)) << bad;
  }
}

TEST(CertificateAuthority, LivesInAFileThatOnlyItsOwnerReads) {
  const osb::testing::TempDir directory;
  const auto file = directory.path() / "authority.pem";
  const auto made = CertificateAuthority::load_or_create(file);
  ASSERT_TRUE(made) << made.error().message;
  struct stat info{};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  const auto again = CertificateAuthority::load_or_create(file);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->certificate_pem(), made->certificate_pem());
  EXPECT_THAT(made->certificate_pem(), Not(HasSubstr("PRIVATE")));
}

TEST(CertificateAuthority, AFileThatIsNotPrivateIsRefused) {
  const osb::testing::TempDir directory;
  const auto file = directory.path() / "authority.pem";
  ASSERT_TRUE(CertificateAuthority::load_or_create(file));
  const auto link = directory.path() / "link.pem";
  std::filesystem::create_symlink(file, link);
  EXPECT_FALSE(CertificateAuthority::load_or_create(link));
  ASSERT_EQ(::chmod(file.c_str(), 0640), 0);
  const auto refused = CertificateAuthority::load_or_create(file);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("can be read by other users"));
}

TEST(CertificateAuthority, BrokenFilesSayWhatIsWrongAndStay) {
  const auto good = CertificateAuthority::create();
  const auto other = CertificateAuthority::create();
  using testing::Certificate;
  const Certificate leaf({.common_name = "leaf", .alt_names = ""});
  const Certificate expired(
      {.common_name = "old", .alt_names = "", .valid_from = -7200, .valid_to = -3600, .authority = true});
  const std::string key = good->secret_pem().substr(0, good->secret_pem().find("-----BEGIN CERTIFICATE"));
  const struct {
    const char* why;
    std::string text;
  } rows[] = {
      {"no usable key", ""},
      {"no usable key", good->certificate_pem()},
      {"no certificate", key},
      {"does not belong", key + other->certificate_pem()},
      {"may not sign", leaf.key_pem() + leaf.certificate_pem()},
      {"has expired", expired.key_pem() + expired.certificate_pem()},
  };
  const osb::testing::TempDir directory;
  for (const auto& row : rows) {
    const auto file = directory.path() / "authority.pem";
    std::ofstream(file) << row.text;
    ::chmod(file.c_str(), 0600);
    const auto refused = CertificateAuthority::load_or_create(file);
    ASSERT_FALSE(refused) << row.why;
    EXPECT_THAT(refused.error().message, HasSubstr(row.why));
    EXPECT_THAT(refused.error().message, HasSubstr(file.string()));
    EXPECT_THAT(refused.error().message, Not(HasSubstr("BEGIN")));
    EXPECT_EQ(text_of(file), row.text) << row.why;
  }
}

TEST(LeafContexts, AreMadeOnceAndBounded) {
  FakeClock clock(std::chrono::system_clock::now());
  LeafContexts leaves(*CertificateAuthority::create(), 3, clock);
  const auto first = leaves.for_host("a.example.com");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(*leaves.for_host("A.Example.com"), *first);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(leaves.for_host("host" + std::to_string(i) + ".example.com"));
    if (i < 100) EXPECT_EQ(*leaves.for_host("a.example.com"), *first) << "used in between, so it stays";
  }
  EXPECT_EQ(leaves.size(), 3u);
  EXPECT_NE(*leaves.for_host("a.example.com"), *first) << "not used for long, so it went";
  const auto shaken = shake_hands(leaves.authority(), *first, "a.example.com");
  EXPECT_TRUE(shaken) << shaken.error().message;
}

TEST(LeafContexts, AreRenewedLongBeforeTheyExpire) {
  FakeClock clock(std::chrono::system_clock::now());
  LeafContexts leaves(*CertificateAuthority::create(), 3, clock);
  const auto first = *leaves.for_host("a.example.com");
  clock.set(clock.now() + 24h);
  EXPECT_EQ(*leaves.for_host("a.example.com"), first);
  clock.set(clock.now() + 72h);
  EXPECT_NE(*leaves.for_host("a.example.com"), first);
  EXPECT_EQ(leaves.size(), 1u);
}

}  // namespace
}  // namespace osb::tls
