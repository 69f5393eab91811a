#include "api/lifecycle_template.h"

#include <gmock/gmock.h>

#include "api/lifecycle_testing.h"

namespace osb::api {
namespace {

using testing::refused;

constexpr const char* kParameter = "SANDBOX::INVALID_PARAMETER";

TEST(CreateTemplateTest, EveryFieldIsReadAndComesBackFromTheRecord) {
  const auto wanted = decode_create_template(R"({"image":" python ","publish":"local://","resourceLimits":{"cpu":"2"},
      "entrypoint":["a","b"],"env":{"A":"1"},"metadata":{"team":"a"},
      "readiness":{"probe":"tcp://127.0.0.1:80","warmupSeconds":3},"format":"native"})");
  ASSERT_TRUE(wanted) << wanted.error().message;
  EXPECT_EQ(wanted->image, "python");
  EXPECT_EQ(wanted->readiness->warmup_seconds, std::chrono::seconds(3));
  EXPECT_TRUE(check_create_template(*wanted));
  const auto again = decode_create_template(encode_create_template(*wanted));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *wanted);
  const CreateSandbox build = build_spec(*wanted);
  EXPECT_EQ(build.image->uri, "python");
  EXPECT_EQ(build.entrypoint, wanted->entrypoint);
  EXPECT_EQ(build.env, wanted->env);
  EXPECT_EQ(build.resource_limits, wanted->resource_limits);
}

TEST(CreateTemplateTest, DefaultsAreAnIdleEntrypointAndTheNativeFormat) {
  const auto wanted = decode_create_template(R"({"image":"a","publish":"local://","readiness":null})");
  ASSERT_TRUE(wanted) << wanted.error().message;
  EXPECT_THAT(wanted->entrypoint, ::testing::ElementsAre("tail", "-f", "/dev/null"));
  EXPECT_EQ(wanted->format, "native");
  EXPECT_FALSE(wanted->readiness);
}

TEST(CreateTemplateTest, ProbesAreAPortOfTheSandboxOrACommand) {
  for (const char* text : {"tcp://127.0.0.1:80", "tcp://localhost:80", "tcp://:80", "tcp://80", "tcp://[::1]:80/"}) {
    const auto probe = parse_template_probe(text);
    ASSERT_TRUE(probe) << text;
    EXPECT_EQ(probe->port, 80) << text;
  }
  EXPECT_EQ(parse_template_probe("cmd:// test -f /x ")->command, "test -f /x");
  for (const char* text : {"", "tcp://", "tcp://a:80", "tcp://127.0.0.1:", "tcp://127.0.0.1:65536",
                           "tcp://127.0.0.1:-1", "http://127.0.0.1:80", "cmd://", "cmd:// "}) {
    EXPECT_TRUE(refused(parse_template_probe(text), 400, kParameter, "/readiness/probe")) << text;
  }
}

TEST(CreateTemplateTest, AnAnswerHasNoFieldThatIsNull) {
  CreateTemplate spec;
  spec.image = "a";
  spec.publish = "local://";
  spec.entrypoint = {"b"};
  spec.format = "native";
  const TemplateStatus status{"Pending", "", ""};
  const std::string text = encode_template({"tpl-1", &spec, &status, Timestamp(), Timestamp()});
  EXPECT_EQ(text,
            R"({"templateId":"tpl-1","image":"a","publish":"local://","entrypoint":["b"],"format":"native",)"
            R"("status":{"phase":"Pending"},"createdAt":"1970-01-01T00:00:00Z","updatedAt":"1970-01-01T00:00:00Z"})");
}

}  // namespace
}  // namespace osb::api
