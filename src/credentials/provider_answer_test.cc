#include "credentials/provider_answer.h"

#include <gtest/gtest.h>

namespace osb::credentials {
namespace {

TEST(ProviderAnswer, ValueLosesOneLineEndAndNothingElse) {
  EXPECT_EQ(parse_value("abc\n")->view(), "abc");
  EXPECT_EQ(parse_value("abc\r\n")->view(), "abc");
  EXPECT_EQ(parse_value(" a b ")->view(), " a b ");
  for (const std::string& wrong : {std::string(), std::string("\n"), std::string("a\nb"), std::string("a\0b", 3),
                                   std::string(kMostBytes + 1, 'x')}) {
    EXPECT_FALSE(parse_value(wrong));
  }
}

TEST(ProviderAnswer, Kv2SecretIsFoundByItsField) {
  EXPECT_EQ(parse_kv2_answer(R"({"data":{"data":{"key":"v"},"metadata":{"version":3}}})", "key")->view(), "v");
  const struct {
    const char* body;
    const char* why;
  } rows[] = {
      {R"({"data":{"key":"s3cret"}})", "no data"},
      {R"({"data":{"data":null,"metadata":{}}})", "no data"},
      {R"({"data":{"data":{"other":"s3cret"}}})", "no text in the field \"key\""},
      {R"({"data":{"data":{"key":7}}})", "no text in the field"},
      {R"({"data":{"data":{"key":"s3cret\u0000"}}})", "control characters"},
      {"[]", "no JSON object"},
      {"s3cret", "no JSON object"},
  };
  for (const auto& row : rows) {
    const auto refused = parse_kv2_answer(row.body, "key");
    ASSERT_FALSE(refused) << row.body;
    EXPECT_EQ(refused.error().code, Code::Unavailable);
    EXPECT_TRUE(refused.error().message.contains(row.why)) << refused.error().message;
    EXPECT_FALSE(refused.error().message.contains("s3cret")) << refused.error().message;
  }
}

TEST(ProviderAnswer, TokenHasALifetime) {
  const auto token = parse_token_answer(R"({"access_token":"t","token_type":"Bearer","expires_in":3600})");
  ASSERT_TRUE(token) << token.error().message;
  EXPECT_EQ(token->value.view(), "t");
  EXPECT_EQ(token->lifetime, std::chrono::seconds(3600));
  EXPECT_FALSE(parse_token_answer(R"({"access_token":"t","token_type":"bearer"})")->lifetime);
  for (const char* wrong :
       {R"({"access_token":"t"})", R"({"access_token":"t","token_type":"mac"})",
        R"({"token_type":"bearer","expires_in":1})", R"({"access_token":"t","token_type":"bearer","expires_in":0})",
        R"({"access_token":"t","token_type":"bearer","expires_in":"soon"})", "{", ""}) {
    EXPECT_FALSE(parse_token_answer(wrong)) << wrong;
  }
}

TEST(ProviderAnswer, ErrorOfATokenEndpointIsACodeOrNothing) {
  EXPECT_EQ(token_error(R"({"error":"invalid_client","error_description":"s3cret"})"), "invalid_client");
  EXPECT_EQ(token_error(R"({"error":"the key s3cret is wrong"})"), "");
  EXPECT_EQ(token_error("s3cret"), "");
}

}  // namespace
}  // namespace osb::credentials
