#include "http/middleware.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/await.h"
#include "support/temp_dir.h"

namespace osb::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Handler answering(Response (*make)()) {
  return [make](Request&) -> net::awaitable<Response> { co_return make(); };
}

Request request_with(Headers headers, std::string method = "GET") {
  Request request;
  request.method = std::move(method);
  request.target = "/x?secret=1";
  request.headers = std::move(headers);
  return request;
}

Response run(const Handler& handler, Request& request) { return testing::await(handler(request)); }

// Sends the log to a file while the object lives.
class CapturedLog {
 public:
  CapturedLog() {
    LogOptions options;
    options.outputs = {(dir_ / "log").string()};
    EXPECT_TRUE(configure_log(options));
  }
  ~CapturedLog() { EXPECT_TRUE(configure_log({})); }
  std::string text() const {
    std::ifstream in(dir_ / "log");
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

 private:
  testing::TempDir dir_;
};

TEST(RequestId, IsTakenTrimmedAndEchoed) {
  const Handler handler = with_request_id(answering([] { return problem(404, "X", "y"); }));
  Request request = request_with({{"x-request-id", "  abc def-1 "}});
  const Response response = run(handler, request);
  EXPECT_EQ(request.request_id, "abc def-1");
  EXPECT_EQ(response.headers.get("X-Request-ID"), "abc def-1");
  EXPECT_EQ(response.status, 404);
}

TEST(RequestId, UnusableOnesAreReplacedByAFreshOne) {
  const Handler handler = with_request_id(answering([] { return empty_response(); }));
  std::string last;
  for (const std::string& given : {std::string(), std::string("   "), std::string(129, 'x'), std::string("a\x01"),
                                   std::string("\xC3\xA9"), std::string("a\x7f")}) {
    Request request = request_with({{"X-Request-ID", given}});
    const Response response = run(handler, request);
    EXPECT_THAT(request.request_id, ::testing::MatchesRegex("[0-9a-f]{32}")) << given;
    EXPECT_EQ(response.headers.get("X-Request-ID"), request.request_id);
    EXPECT_NE(request.request_id, last);
    last = request.request_id;
  }
  Request longest = request_with({{"X-Request-ID", std::string(128, 'x')}});
  run(handler, longest);
  EXPECT_EQ(longest.request_id, std::string(128, 'x'));
}

TEST(RequestId, ReplacesABackendsOwn) {
  const Handler handler = with_request_id(answering([] {
    Response response = empty_response();
    response.headers.add("x-request-id", "theirs");
    return response;
  }));
  Request request = request_with({{"X-Request-ID", "ours"}});
  const Response response = run(handler, request);
  EXPECT_EQ(response.headers.count("X-Request-ID"), 1U);
  EXPECT_EQ(response.headers.get("X-Request-ID"), "ours");
}

TEST(Fence, AnExceptionBecomesOneProblemAndOneLogLine) {
  const CapturedLog log;
  const Handler handler =
      with_request_id(with_fence(answering([]() -> Response { throw std::runtime_error("the details"); })));
  Request request = request_with({{"X-Request-ID", "id-1"}});
  const Response response = run(handler, request);
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(std::get<std::string>(response.body), R"({"code":"GENERAL::UNKNOWN_ERROR","message":"internal error"})");
  EXPECT_EQ(response.headers.get("X-Request-ID"), "id-1");
  EXPECT_THAT(log.text(), HasSubstr("the details"));
  EXPECT_THAT(log.text(), HasSubstr("id-1"));
  EXPECT_THAT(log.text(), Not(HasSubstr("secret")));
}

TEST(Fence, CatchesWhatIsNoStdException) {
  const CapturedLog log;
  Request request = request_with({});
  EXPECT_EQ(run(with_fence(answering([]() -> Response { throw 1; })), request).status, 500);
}

TEST(Fence, LetsACancellationThrough) {
  const Handler handler =
      with_fence(answering([]() -> Response { throw boost::system::system_error(net::error::operation_aborted); }));
  Request request = request_with({});
  EXPECT_THROW(run(handler, request), boost::system::system_error);
}

TEST(AccessLog, HidesATokenInThePath) {
  const CapturedLog log;
  Request request = request_with({});
  request.target = "/access-token/s3cret/ping";
  access_log()({request, 401, 0, {}, false});
  EXPECT_THAT(log.text(), HasSubstr("path=/access-token/***/ping"));
  EXPECT_THAT(log.text(), Not(HasSubstr("s3cret")));
}

TEST(Fence, HidesATokenInThePath) {
  const CapturedLog log;
  Request request = request_with({});
  request.target = "/access-token/s3cret/ping";
  run(with_fence(answering([]() -> Response { throw std::runtime_error("bug"); })), request);
  EXPECT_THAT(log.text(), HasSubstr("path=/access-token/***/ping"));
  EXPECT_THAT(log.text(), Not(HasSubstr("s3cret")));
}

TEST(AccessLog, TellsWhatHappenedWithoutTheQuery) {
  const CapturedLog log;
  Request request = request_with({});
  request.request_id = "id-2";
  access_log()({request, 206, 1234, std::chrono::nanoseconds(1500999), false});
  EXPECT_THAT(log.text(), HasSubstr("method=GET path=/x status=206 bytes=1234 ms=1.5 request_id=id-2"));
  EXPECT_THAT(log.text(), Not(HasSubstr("secret")));
  access_log(LogLevel::Debug)({request, 418, 0, {}, false});
  EXPECT_THAT(log.text(), Not(HasSubstr("418")));
}

}  // namespace
}  // namespace osb::http
