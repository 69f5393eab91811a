#include "tls/client_hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tls/host_name.h"
#include "tls/openssl.h"

namespace osb::tls {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = ClientHelloReader::State;

std::string number(std::size_t value, int bytes) {
  std::string out;
  while (bytes-- > 0) out += static_cast<char>(value >> (8 * bytes) & 0xff);
  return out;
}
std::string block(int bytes, const std::string& data) { return number(data.size(), bytes) + data; }
std::string extension(std::size_t type, const std::string& data) { return number(type, 2) + block(2, data); }
std::string server_name(const std::string& name) { return extension(0, block(2, number(0, 1) + block(2, name))); }

std::string message(const std::string& extensions) {
  return number(1, 1) + block(3, "\x03\x03" + std::string(32, 'r') + block(1, "") + block(2, "\x13\x01") +
                                     block(1, std::string(1, '\0')) + block(2, extensions));
}
std::string record(const std::string& data) { return "\x16\x03\x01" + block(2, data); }

// The hello of a real client.
std::string openssl_hello(const char* host, const std::string& alpn) {
  const std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context(SSL_CTX_new(TLS_client_method()));
  const SslPtr ssl(SSL_new(context.get()));
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), out);
  if (host != nullptr) SSL_set_tlsext_host_name(ssl.get(), host);
  if (!alpn.empty()) {
    SSL_set_alpn_protos(ssl.get(), reinterpret_cast<const unsigned char*>(alpn.data()),
                        static_cast<unsigned>(alpn.size()));
  }
  SSL_set_connect_state(ssl.get());
  SSL_do_handshake(ssl.get());
  ERR_clear_error();
  char* data = nullptr;
  const long size = BIO_get_mem_data(out, &data);
  return {data, static_cast<std::size_t>(size)};
}

TEST(ClientHello, OfARealClientIsReadInAnyPieces) {
  const std::string bytes = openssl_hello("Api.Example.COM", "\x02h2\x08http/1.1");
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    ClientHelloReader reader;
    State state = State::NeedMore;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      EXPECT_EQ(state, State::NeedMore) << "complete before its last byte, in pieces of " << piece;
      state = reader.take(std::string_view(bytes).substr(at, piece));
    }
    ASSERT_EQ(state, State::Complete) << reader.why();
    EXPECT_EQ(reader.hello().server_name, "api.example.com");
    EXPECT_THAT(reader.hello().alpn, ElementsAre("h2", "http/1.1"));
    EXPECT_FALSE(reader.hello().encrypted_hello);
  }
}

TEST(ClientHello, NeedsNeitherNameNorProtocols) {
  ClientHelloReader reader;
  ASSERT_EQ(reader.take(openssl_hello(nullptr, "")), State::Complete) << reader.why();
  EXPECT_EQ(reader.hello().server_name, "");
  EXPECT_THAT(reader.hello().alpn, ElementsAre());
}

TEST(ClientHello, MayBeSpreadOverRecords) {
  const std::string whole = message(server_name("a.example.com"));
  ClientHelloReader reader;
  for (std::size_t at = 0; at < whole.size(); at += 20) reader.take(record(whole.substr(at, 20)));
  ASSERT_EQ(reader.take(""), State::Complete) << reader.why();
  EXPECT_EQ(reader.hello().server_name, "a.example.com");
}

TEST(ClientHello, RecordsBehindItAreLeftAlone) {
  ClientHelloReader reader;
  EXPECT_EQ(reader.take(record(message(server_name("a.example.com"))) + "\x17\x03\x03 early data"), State::Complete);
}

TEST(ClientHello, EncryptedHelloIsReported) {
  ClientHelloReader reader;
  EXPECT_EQ(reader.take(record(message(server_name("a.com") + extension(0xfe0d, "random")))), State::Complete);
  EXPECT_TRUE(reader.hello().encrypted_hello);
}

TEST(ClientHello, OtherProtocolsAreNoTls) {
  for (const char* first : {"GET / HTTP/1.1\r\n", "SSH-2.0-OpenSSH", "\x80\x2e\x01", "\x16\x02\x01"}) {
    ClientHelloReader reader;
    EXPECT_EQ(reader.take(first), State::NotTls) << first;
  }
}

TEST(ClientHello, AmbiguousOnesAreRefused) {
  using namespace std::string_literals;
  const std::string good = message(server_name("a.com"));
  const struct {
    const char* why;
    std::string bytes;
    const char* says;
  } rows[] = {
      {"two SNI extensions", record(message(server_name("a.com") + server_name("b.com"))), "repeated"},
      {"two names in one", record(message(extension(0, block(2, "\0\0\1a\0\0\1b"s)))), "SNI"},
      {"another type of name", record(message(extension(0, block(2, "\1"s + block(2, "a.com"))))), "SNI"},
      {"an empty name", record(message(server_name(""))), "SNI"},
      {"a NUL in the name", record(message(server_name("a.com\0.evil.com"s))), "SNI"},
      {"an IP address", record(message(server_name("10.0.0.1"))), "SNI"},
      {"a dot at the end", record(message(server_name("a.com."))), "SNI"},
      {"bytes behind the list", record(message(extension(0, block(2, "\0\0\1a"s) + "x"))), "SNI"},
      {"an empty list of protocols", record(message(extension(16, block(2, "")))), "ALPN"},
      {"an empty protocol", record(message(extension(16, block(2, "\0"s)))), "ALPN"},
      {"a second message in the record", record(good + good), "follow"},
      {"a record of nothing", record(""), "bad length"},
      {"a record too long", "\x16\x03\x01\xff\xff", "bad length"},
      {"a message too long", record("\x01\x10"s + std::string(3, '\0')), "too long"},
      {"a ServerHello", record("\x02"s + good.substr(1)), "no ClientHello"},
      {"another record inside", record(good.substr(0, 20)) + "\x15", "inside"},
      {"cut off inside", record(number(1, 1) + block(3, good.substr(4, 30))), "malformed"},
  };
  for (const auto& row : rows) {
    ClientHelloReader reader;
    EXPECT_EQ(reader.take(row.bytes), State::Refused) << row.why;
    EXPECT_THAT(reader.why(), HasSubstr(row.says)) << row.why;
    EXPECT_EQ(reader.take(record(good)), State::Refused) << row.why << ": bytes that follow change nothing";
  }
}

TEST(ClientHello, NeedsABoundedNumberOfRecords) {
  const std::string whole = message(server_name("a.example.com"));
  ClientHelloReader reader;
  State state = State::NeedMore;
  for (std::size_t at = 0; at < whole.size() && state == State::NeedMore; ++at) {
    state = reader.take(record(whole.substr(at, 1)));
  }
  EXPECT_EQ(state, State::Refused);
  EXPECT_THAT(reader.why(), HasSubstr("too many records"));
}

TEST(DnsName, IsLowerCaseAndNothingElse) {
  EXPECT_EQ(parse_dns_name("WWW.Example.com"), "www.example.com");
  EXPECT_EQ(parse_dns_name("_dns.a-b.c"), "_dns.a-b.c");
  const std::string long_label(64, 'a');
  for (const std::string& bad : {std::string(), std::string("."), std::string("a..b"), std::string("a."),
                                 std::string(".a"), std::string("*.a.com"), std::string("1.2.3.4"), std::string("::1"),
                                 std::string("a b"), std::string("a/b"), std::string("\xc3\xa4.de"), long_label}) {
    EXPECT_EQ(parse_dns_name(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace osb::tls
