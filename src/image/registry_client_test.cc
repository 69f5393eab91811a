#include "image/registry_client.h"

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "http/http_fixture.h"
#include "http/url.h"
#include "image/registry_auth.h"
#include "support/temp_dir.h"
#include "tls/connector.h"

namespace osb::image {
namespace {

using http::Request;
using http::Response;
using osb::testing::await;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RegistryAuth, ChallengesAreRead) {
  const Challenge bearer = parse_challenge(
      {{"WWW-Authenticate", "Basic realm=\"x\""},
       {"Www-Authenticate", R"(Bearer realm="https://auth.example/token?a=b",service="the, \"registry\"",scope="s")"}});
  EXPECT_EQ(bearer.scheme, Challenge::Scheme::Bearer);
  EXPECT_EQ(bearer.realm, "https://auth.example/token?a=b");
  EXPECT_EQ(bearer.service, "the, \"registry\"");
  EXPECT_EQ(parse_challenge({{"WWW-Authenticate", "basic realm=x"}}).scheme, Challenge::Scheme::Basic);
  EXPECT_EQ(parse_challenge({{"WWW-Authenticate", "Negotiate"}}).scheme, Challenge::Scheme::None);
  EXPECT_EQ(parse_challenge({{"WWW-Authenticate", "Bearer realm=\"open"}}).realm, "");
  EXPECT_EQ(parse_challenge({}).scheme, Challenge::Scheme::None);
}

TEST(RegistryAuth, BasicIsBase64) {
  EXPECT_EQ(basic_authorization("Aladdin", "open sesame"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
  EXPECT_EQ(basic_authorization("a", "b"), "Basic YTpi");
  EXPECT_EQ(basic_authorization("a", "bc"), "Basic YTpiYw==");
  EXPECT_EQ(basic_authorization("a", "bcd"), "Basic YTpiY2Q=");
}

// A server that misbehaves on purpose, as no real registry can be told to.
class RegistryClientTest : public http::testing::HttpFixture {
 protected:
  RegistryClient registry(RegistryAccess access = {}) {
    access.plain_http = true;
    return RegistryClient(client_, pool_, *Reference::parse(address.to_string() + "/a/b:1"), std::move(access));
  }
  Result<void> download(RegistryClient& from, const std::string& bytes) {
    return await(io, from.download({"", Digest::of(bytes), bytes.size()}, dir_ / "blob",
                                   [this](std::uint64_t size) { progress_.push_back(size); }));
  }
  std::string file() {
    std::ifstream in(dir_ / "blob", std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // The first `size` bytes of a longer body, then the connection breaks.
  static Response broken(std::string_view bytes, std::size_t size, int status = 200) {
    Response response;
    response.status = status;
    response.body = http::StreamBody{
        [text = std::string(bytes.substr(0, size))](http::BodyWriter& out) -> net::awaitable<Result<void>> {
          (void)co_await out.write(text);
          co_return fail(Code::Internal, "broken on purpose");
        },
        bytes.size()};
    return response;
  }
  ~RegistryClientTest() override { client_.clear(); }

  osb::testing::TempDir dir_;
  BlockingPool pool_{2};
  http::Client client_{tls::make_connector(io.get_executor())};
  std::vector<std::uint64_t> progress_;
};

TEST_F(RegistryClientTest, ABrokenDownloadIsTakenUpWhereItBroke) {
  std::string bytes(5'000'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 >> 6);
  std::vector<std::string> ranges;
  serve([&](Request& request) -> net::awaitable<Response> {
    const std::string range(request.headers.get("Range"));
    ranges.push_back(range);
    if (range.empty()) co_return broken(bytes, 2'000'000);
    const std::size_t from = std::stoul(range.substr(6));
    const std::string_view rest = std::string_view(bytes).substr(from);
    Response response = ranges.size() == 2 ? broken(rest, 1'000'000, 206) : http::text_response(206, std::string(rest));
    response.headers.set("Content-Range", fmt::format("bytes {}-{}/{}", from, bytes.size() - 1, bytes.size()));
    co_return response;
  });
  RegistryClient from = registry();
  const auto got = download(from, bytes);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(file() == bytes);
  EXPECT_THAT(ranges, ElementsAre("", "bytes=2000000-", "bytes=3000000-"));
  EXPECT_EQ(progress_.back(), bytes.size());
}

TEST_F(RegistryClientTest, AServerThatCannotResumeSendsEverythingAgain) {
  const std::string bytes(300'000, 'x');
  int asked = 0;
  serve([&](Request&) -> net::awaitable<Response> {
    if (asked++ == 0) co_return broken(bytes, 100'000);
    co_return http::text_response(200, bytes);
  });
  RegistryClient from = registry();
  ASSERT_TRUE(download(from, bytes));
  EXPECT_TRUE(file() == bytes);
}

TEST_F(RegistryClientTest, ContentThatIsNotTheBlobIsRefused) {
  const std::string bytes(1000, 'x');
  std::string answer;
  serve([&](Request&) -> net::awaitable<Response> { co_return http::text_response(200, answer); });
  for (const std::string& wrong :
       {std::string(1000, 'y'), std::string(1001, 'x'), std::string(999, 'x'), std::string()}) {
    answer = wrong;
    RegistryClient from = registry();
    const auto got = download(from, bytes);
    ASSERT_FALSE(got) << wrong.size();
    EXPECT_EQ(got.error().code, Code::InvalidRequest) << got.error().message;
  }
}

TEST_F(RegistryClientTest, AServerInTroubleIsAskedAgainButNotForever) {
  int asked = 0;
  serve([&](Request&) -> net::awaitable<Response> {
    ++asked;
    co_return http::problem(503, "X", "busy");
  });
  RegistryAccess access;
  access.retries = 1;
  RegistryClient from = registry(access);
  const auto got = download(from, "abc");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::Unavailable);
  EXPECT_EQ(asked, 2);
}

TEST_F(RegistryClientTest, ATokenIsFetchedWithTheCredentialsAndStaysWithItsRegistry) {
  // The other host that blobs are redirected to.
  std::vector<std::string> leaked;
  http::Server other(io.get_executor(), [&](Request& request) -> net::awaitable<Response> {
    leaked.emplace_back(request.headers.get("Authorization"));
    co_return http::text_response(200, request.target == "/store/blob?sig=1" ? "abc" : "no");
  });
  const auto bound = other.listen(http::Address::tcp("127.0.0.1", 0));
  ASSERT_TRUE(bound);
  std::vector<std::string> asked;
  serve([&](Request& request) -> net::awaitable<Response> {
    const std::string authorization(request.headers.get("Authorization"));
    asked.push_back(std::string(request.path()) + " " + authorization);
    if (request.path() == "/token") {
      const http::Query query = http::Query::parse(request.query());
      const bool right = query.get("service") == "my service" && query.get("scope") == "repository:a/b:pull" &&
                         authorization == basic_authorization("me", "secret");
      co_return right ? http::json_response(200, R"({"access_token":"T"})") : http::problem(403, "X", "no");
    }
    if (authorization != "Bearer T") {
      Response response = http::problem(401, "UNAUTHORIZED", "token please");
      response.headers.set("WWW-Authenticate",
                           "Bearer realm=\"http://" + address.to_string() + "/token\",service=\"my service\"");
      co_return response;
    }
    Response response = http::empty_response(307);
    response.headers.set("Location", "http://" + bound->to_string() + "/store/blob?sig=1");
    co_return response;
  });
  RegistryAccess access;
  access.credentials = Credentials{"me", "secret"};
  RegistryClient from = registry(access);
  const auto got = download(from, "abc");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(file(), "abc");
  EXPECT_THAT(leaked, ElementsAre(""));
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_THAT(asked[0], ::testing::EndsWith(" "));
  EXPECT_THAT(asked[2], HasSubstr("Bearer T"));
  client_.clear();
  await(io, other.stop(std::chrono::milliseconds(0)));
}

TEST_F(RegistryClientTest, RedirectsThatLeadNowhereAreGivenUp) {
  std::string location;
  int asked = 0;
  serve([&](Request&) -> net::awaitable<Response> {
    ++asked;
    Response response = http::empty_response(302);
    response.headers.set("Location", location);
    co_return response;
  });
  RegistryAccess access;
  access.retries = 0;
  for (const char* to : {"/again", "unix:/run/some.sock", "ftp://x/y", ""}) {
    location = to;
    RegistryClient from = registry(access);
    EXPECT_FALSE(download(from, "abc")) << to;
  }
  EXPECT_EQ(asked, 6 + 3);
}

TEST_F(RegistryClientTest, AManifestWithAnotherDigestIsRefused) {
  serve([&](Request&) -> net::awaitable<Response> {
    Response response = http::json_response(200, "{}");
    response.headers.set("Docker-Content-Digest", Digest::of("other").to_string());
    co_return response;
  });
  RegistryClient from = registry();
  const auto got = await(io, from.resolve(host_platform()));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::InvalidRequest);
  EXPECT_THAT(got.error().message, HasSubstr("digest"));
}

}  // namespace
}  // namespace osb::image
