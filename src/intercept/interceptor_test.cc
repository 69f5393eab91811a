#include "intercept/interceptor.h"

#include "async/timer.h"
#include "intercept/interceptor_fixture.h"

namespace osb::intercept {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kHost = "api.example.com";
const std::string kBearer = "Bearer " + std::string(kSecret);

class Interception : public InterceptorTest {
 protected:
  // A server for kHost that notes the requests it gets and answers with their Authorization in a header.
  void serve_host(const Certificate* certificate) {
    serve([this](http::Request& request) { return note(request); }, certificate);
  }
  net::awaitable<http::Response> note(http::Request& request) {
    seen_.push_back(request.method + " " + request.target + " " + std::string(request.headers.get("Authorization")));
    const auto body = co_await request.body->read_all(64 << 20);
    auto response = http::text_response(200, "served " + std::to_string(body ? body->size() : 0));
    response.headers.add("X-Echo", std::string(request.headers.get("Authorization")));
    co_return response;
  }
  std::vector<std::string> seen_;
  Certificate good_ = certificate_for(kHost);
};

TEST_F(Interception, UnboundHostsAreSplicedUntouched) {
  serve_host(&good_);
  start();
  auto made = await(io_, dial_tls(kHost, world_trust_));
  ASSERT_TRUE(made) << "the client sees the server's own certificate: " << made.error().message;
  EXPECT_THAT(talk(**made, get(kHost)), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(seen_, ElementsAre("GET /path "));
  EXPECT_THAT(rules_.served, ElementsAre());
}

TEST_F(Interception, BoundRequestsGetTheirCredentialOutsideTheSandbox) {
  serve_host(&good_);
  rules_.bound[kHost] = kBearer;
  start();
  const std::string answer = ask(kHost, get(kHost, "authorization: mine\r\nAuthorization: also mine\r\n"));
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("X-Echo: Bearer [REDACTED]"), HasSubstr("served 0")));
  EXPECT_THAT(answer, Not(HasSubstr(std::string(kSecret))));
  EXPECT_THAT(seen_, ElementsAre("GET /path " + kBearer));
  EXPECT_THAT(rules_.served, ElementsAre(std::pair(kHost, 200)));
}

TEST_F(Interception, EachRequestOfAConnectionIsJudgedAnew) {
  serve_host(&good_);
  rules_.bound[kHost] = "old";
  start();
  auto client = dial(kHost);
  const auto next = [&](const std::string& more) {
    return await(io_, [](http::Transport& to, std::string text) -> net::awaitable<std::string> {
      std::string out;
      std::vector<char> buffer(4096);
      (void)co_await to.write_all(text);
      while (!out.contains("served 0")) {
        auto got = co_await to.read_some(buffer);
        if (!got || *got == 0) break;
        out.append(buffer.data(), *got);
      }
      co_return out;
    }(*client, "GET /" + more + " HTTP/1.1\r\nHost: " + kHost + "\r\n\r\n"));
  };
  next("1");
  rules_.bound[kHost] = "rotated";
  next("2");
  rules_.bound.erase(kHost);
  next("3");
  EXPECT_THAT(seen_, ElementsAre("GET /1 old", "GET /2 rotated", "GET /3 "));
  rules_.denied.insert(kHost);
  EXPECT_THAT(talk(*client, get(kHost)), AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("the policy denies")));
  EXPECT_EQ(seen_.size(), 3u);
}

TEST_F(Interception, HostAndServerNameMustAgree) {
  serve_host(&good_);
  rules_.bound[kHost] = kBearer;
  start();
  const std::string port = std::to_string(destination_.port);
  for (const std::string& host : {std::string("victim.example.com"), std::string("127.0.0.1"), kHost + ":1",
                                  std::string("[::1]"), std::string("a@") + kHost, kHost + ".evil.com"}) {
    EXPECT_THAT(ask(kHost, get(host)), StartsWith("HTTP/1.1 421")) << host;
  }
  EXPECT_THAT(
      ask(kHost, "GET https://victim.example.com/ HTTP/1.1\r\nHost: " + kHost + "\r\nConnection: close\r\n\r\n"),
      StartsWith("HTTP/1.1 421"));
  EXPECT_THAT(ask(kHost, "GET / HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 421"));
  EXPECT_THAT(seen_, ElementsAre()) << "nothing goes out";
  for (const std::string& host : {kHost + ":" + port, std::string("API.Example.COM"), kHost + "."}) {
    EXPECT_THAT(ask(kHost, get(host)), StartsWith("HTTP/1.1 200")) << host;
  }
}

TEST_F(Interception, AmbiguousRequestsGoNowhere) {
  serve_host(&good_);
  rules_.bound[kHost] = kBearer;
  start();
  const std::string start_line = "POST / HTTP/1.1\r\nHost: " + kHost + "\r\n";
  const struct {
    const char* why;
    std::string bytes;
  } rows[] = {
      {"length and encoding", start_line + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"two lengths", start_line + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde"},
      {"two encodings", start_line + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"},
      {"a blank before the colon", start_line + "Content-Length : 4\r\n\r\nabcd"},
      {"a folded line", start_line + "X: a\r\n b\r\n\r\n"},
      {"a bare LF", start_line + "X: a\nContent-Length: 4\r\n\r\nabcd"},
      {"a bare CR", start_line + "X: a\rContent-Length: 4\r\n\r\nabcd"},
      {"a NUL in a value", start_line + std::string("X: a\0b\r\n\r\n", 10)},
      {"two hosts", start_line + "Host: " + kHost + "\r\n\r\n"},
      {"a signed length", start_line + "Content-Length: +4\r\n\r\nabcd"},
      {"CONNECT", "CONNECT victim.example.com:443 HTTP/1.1\r\nHost: " + kHost + "\r\n\r\n"},
      {"TRACE", "TRACE / HTTP/1.1\r\nHost: " + kHost + "\r\nConnection: close\r\n\r\n"},
      {"a fragment", "GET /#/ HTTP/1.1\r\nHost: " + kHost + "\r\nConnection: close\r\n\r\n"},
      {"an oversize head", start_line + "X: " + std::string(70'000, 'x') + "\r\n\r\n"},
  };
  for (const auto& row : rows) EXPECT_THAT(ask(kHost, row.bytes), StartsWith("HTTP/1.1 4")) << row.why;
  for (const char* coding : {"gzip, chunked", "xchunked", "chunked, chunked", "\vchunked"}) {
    EXPECT_THAT(ask(kHost, start_line + "Transfer-Encoding: " + coding + "\r\n\r\n"),
                ::testing::AnyOf(StartsWith("HTTP/1.1 501"), StartsWith("HTTP/1.1 400")))
        << coding;
  }
  EXPECT_THAT(seen_, ElementsAre());
}

TEST_F(Interception, ConnectionFieldsCannotTakeTheCredentialAway) {
  serve_host(&good_);
  rules_.bound[kHost] = kBearer;
  start();
  EXPECT_THAT(ask(kHost, "GET / HTTP/1.1\r\nHost: " + kHost + "\r\nConnection: close, Authorization\r\n\r\n"),
              StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(seen_, ElementsAre("GET / " + kBearer));
}

TEST_F(Interception, HostsThatCannotBeVerifiedGetNothing) {
  const Certificate expired(
      {.common_name = "server", .alt_names = "DNS:" + kHost, .valid_from = -7200, .valid_to = -60}, &root_);
  const Certificate self_signed({.common_name = "server", .alt_names = "DNS:" + kHost});
  const Certificate other = certificate_for("attacker.example.com");
  const struct {
    const Certificate* certificate;
    const char* says;
  } rows[] = {{&expired, "expired"},
              {&self_signed, "self-signed"},
              {&other, "it is for attacker.example.com"},
              {nullptr, "does not speak TLS"}};
  rules_.bound[kHost] = kBearer;
  start();
  for (const auto& row : rows) {
    serve_host(row.certificate);
    const std::string answer = ask(kHost, get(kHost));
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 502"), HasSubstr("credential binding test"), HasSubstr(row.says)));
    EXPECT_THAT(answer, Not(HasSubstr(std::string(kSecret))));
  }
  EXPECT_THAT(seen_, ElementsAre());
}

TEST_F(Interception, RequestsGoToTheAddressThatWeResolved) {
  serve_host(&good_);
  const std::uint16_t real = destination_.port;
  rules_.bound[kHost] = kBearer;
  start();
  destination_.destination = *parse_ip_address("192.0.2.1");  // the sandbox believes in a server of its own
  destination_.port = real;
  EXPECT_THAT(ask(kHost, get(kHost)), StartsWith("HTTP/1.1 200"));
  rules_.addresses = {};
  interceptor_->forget(destination_.sandbox);
  EXPECT_THAT(ask(kHost, get(kHost)), AllOf(StartsWith("HTTP/1.1 502"), HasSubstr("no address")));
  EXPECT_EQ(seen_.size(), 1u);
}

TEST_F(Interception, DeniedNamesAreRefusedInTheirProtocol) {
  serve_host(&good_);
  rules_.denied.insert(kHost);
  start();
  const auto made = await(io_, dial_tls(kHost, world_trust_));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("access denied"));
  EXPECT_THAT(ask("", get(kHost)), AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("the policy denies " + kHost)));
  EXPECT_THAT(seen_, ElementsAre());
}

TEST_F(Interception, AClientThatDoesNotTrustUsIsReported) {
  serve_host(&good_);
  rules_.bound[kHost] = kBearer;
  start();
  Event reported(io_.get_executor());
  rules_.on_failed = [&] { reported.set(); };
  EXPECT_FALSE(await(io_, dial_tls(kHost, world_trust_))) << "as a pinned client would";
  EXPECT_TRUE(await(io_, reported.wait()));
  ASSERT_EQ(rules_.failures.size(), 1u);
  EXPECT_THAT(rules_.failures.front(), StartsWith(kHost));
}

TEST_F(Interception, LocalAnswersSendNothing) {
  serve_host(&good_);
  rules_.bound[kHost] = kBearer;
  rules_.answer = "credential binding ambiguous\n";
  start();
  EXPECT_THAT(ask(kHost, get(kHost)),
              AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("text/plain"), HasSubstr("credential binding ambiguous\n")));
  EXPECT_THAT(seen_, ElementsAre());
  EXPECT_THAT(rules_.served, ElementsAre(std::pair(kHost, 403)));
}

TEST_F(Interception, PlainHttpIsOpenedOrSplicedByItsHost) {
  serve_host(nullptr);
  rules_.bound[kHost] = kBearer;
  start();
  EXPECT_THAT(ask("", get(kHost)), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("[REDACTED]")));
  EXPECT_THAT(ask("", get("other.example.com")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask("", "GET / HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask("", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(seen_, ElementsAre("GET /path " + kBearer, "GET /path ", "GET / "));
}

TEST_F(Interception, ASandboxThatIsGoneLosesItsConnections) {
  serve_host(&good_);
  rules_.bound[kHost] = kBearer;
  start();
  auto opened = dial(kHost);
  interceptor_->forget(destination_.sandbox);
  EXPECT_EQ(talk(*opened, ""), "");
  EXPECT_THAT(ask(kHost, get(kHost)), StartsWith("HTTP/1.1 200")) << "the next sandbox with its address";
}

TEST_F(Interception, TooManyConnectionsOfASandboxAreClosed) {
  serve_host(&good_);
  rules_.bound[kHost] = kBearer;
  start({.per_sandbox = 2});
  auto one = dial(kHost), two = dial(kHost);
  EXPECT_FALSE(await(io_, dial_tls(kHost, sandbox_trust_)));
  EXPECT_THAT(talk(*one, get(kHost)), StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace osb::intercept
