#include "client/errors.h"

#include <gtest/gtest.h>

namespace opensandbox {
namespace {

TEST(ApiErrorTest, TakesCodeAndMessageFromEveryServersAnswer) {
  const struct {
    const char* why;
    const char* body;
    const char* code;
    const char* message;
  } rows[] = {
      {"the lifecycle API", R"({"code":"SANDBOX::X","message":"no"})", "SANDBOX::X", "no"},
      {"execd", R"({"code":"FILE_NOT_FOUND","error":"gone"})", "FILE_NOT_FOUND", "gone"},
      {"a framework's own refusal", R"({"detail":"Not Found"})", "UNEXPECTED_RESPONSE", "Not Found"},
      {"fields of other types", R"({"code":7,"message":["a"]})", "UNEXPECTED_RESPONSE",
       R"({"code":7,"message":["a"]})"},
      {"a proxy's page", "<html>Bad Gateway</html>\r\n", "UNEXPECTED_RESPONSE", "<html>Bad Gateway</html>"},
      {"nothing", "", "UNEXPECTED_RESPONSE", "the answer has no body"},
  };
  for (const auto& row : rows) {
    const Error error = api_error(502, row.body, "r-1");
    EXPECT_EQ(error.kind, ErrorKind::Api) << row.why;
    EXPECT_EQ(error.code, row.code) << row.why;
    EXPECT_EQ(error.message, row.message) << row.why;
    EXPECT_EQ(error.to_string(), "502 " + error.code + ": " + error.message + " (request r-1)");
  }
}

TEST(ApiErrorTest, ALongPageIsCut) {
  EXPECT_EQ(api_error(500, std::string(9000, 'x'), "").message, std::string(500, 'x') + "..");
}

TEST(TransportErrorTest, ACancelledCallIsNotAFaultOfTheNetwork) {
  EXPECT_EQ(from_transport({osb::Code::Cancelled, "left"}).error().kind, ErrorKind::Cancelled);
  EXPECT_EQ(from_transport({osb::Code::Unavailable, "refused"}).error().kind, ErrorKind::Network);
  EXPECT_EQ(from_transport({osb::Code::Unavailable, "refused"}).error().message, "refused");
}

}  // namespace
}  // namespace opensandbox
