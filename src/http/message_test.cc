#include "http/message.h"

#include <gtest/gtest.h>

namespace osb::http {
namespace {

std::string text_of(const Response& response) { return std::get<std::string>(response.body); }

TEST(Request, SplitsTheTargetWithoutDecoding) {
  Request request;
  request.target = "/a%2Fb?x=1?y";
  EXPECT_EQ(request.path(), "/a%2Fb");
  EXPECT_EQ(request.query(), "x=1?y");
  request.target = "/a";
  EXPECT_EQ(request.path(), "/a");
  EXPECT_EQ(request.query(), "");
}

TEST(PathParams, UnknownNamesAreEmpty) {
  PathParams params;
  params.add("id", "1");
  EXPECT_EQ(params["id"], "1");
  EXPECT_EQ(params["other"], "");
}

TEST(Responses, EmptyOnesSayThatTheyAreEmpty) {
  EXPECT_EQ(empty_response().headers.get("Content-Length"), "0");
  EXPECT_EQ(empty_response(201).status, 201);
  EXPECT_FALSE(empty_response(204).headers.contains("Content-Length"));
  EXPECT_FALSE(empty_response(304).headers.contains("Content-Length"));
}

TEST(Responses, CarryTheirContentType) {
  EXPECT_EQ(json_response(202, "{}").headers.get("Content-Type"), "application/json");
  EXPECT_EQ(text_response(200, "x").headers.get("Content-Type"), "text/plain; charset=utf-8");
  EXPECT_EQ(text_of(text_response(200, "x")), "x");
}

TEST(Problem, HasBothKeysForAnyError) {
  const Response response = problem(404, "SANDBOX::NOT_FOUND", "no \"x\"\n");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.headers.get("Content-Type"), "application/json");
  EXPECT_EQ(text_of(response), R"({"code":"SANDBOX::NOT_FOUND","message":"no \"x\"\n"})");
  EXPECT_EQ(text_of(problem(503, "", "")), R"({"code":"GENERAL::UNKNOWN_ERROR","message":"Service Unavailable"})");
  EXPECT_EQ(text_of(problem(799, "A", "")), R"({"code":"A","message":"Unknown"})");
}

TEST(Problem, FollowsTheError) {
  Error error(Code::Conflict, "is there");
  EXPECT_EQ(text_of(problem(error)), R"({"code":"GENERAL::UNKNOWN_ERROR","message":"is there"})");
  EXPECT_EQ(text_of(problem(error, "RUNTIME_ERROR")), R"({"code":"RUNTIME_ERROR","message":"is there"})");
  error.reason = "POOL::EXISTS";
  const Response response = problem(error);
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(text_of(response), R"({"code":"POOL::EXISTS","message":"is there"})");
}

TEST(Problem, EveryCodeHasAnErrorStatusWithAPhrase) {
  for (int code = 0; code <= static_cast<int>(Code::Cancelled); ++code) {
    const int status = status_of(static_cast<Code>(code));
    EXPECT_GE(status, 400);
    EXPECT_NE(reason_phrase(status), "Unknown") << status;
  }
  EXPECT_EQ(status_of(Code::InvalidRequest), 400);
  EXPECT_EQ(status_of(Code::Unsupported), 501);
}

TEST(EventStream, TellsProxiesNotToHoldItBack) {
  const Response response = event_stream([](BodyWriter&) -> net::awaitable<Result<void>> { co_return Result<void>(); });
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.get("Content-Type"), "text/event-stream");
  EXPECT_EQ(response.headers.get("Cache-Control"), "no-cache");
  EXPECT_EQ(response.headers.get("X-Accel-Buffering"), "no");
  ASSERT_TRUE(std::holds_alternative<StreamBody>(response.body));
  EXPECT_FALSE(std::get<StreamBody>(response.body).length);
}

}  // namespace
}  // namespace osb::http
