#include "taskexecutor/options.h"

#include <gtest/gtest.h>

namespace osb::taskexecutor {
namespace {

using Env = std::map<std::string, std::string, std::less<>>;

Result<Options> parse(std::initializer_list<std::string_view> args, const Env& env = {}) {
  return parse_options(std::span(args.begin(), args.size()), env);
}

TEST(TaskExecutorOptions, FlagsOverrideTheEnvironment) {
  const Env env{{"DATA_DIR", "/a"}, {"LISTEN_ADDR", "127.0.0.1:1"}, {"ENABLE_SIDECAR_MODE", "true"}};
  const auto got = parse({"-data-dir=/b", "--main-container-name", "box"}, env);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->data_dir, "/b");
  EXPECT_EQ(got->listen_addr, "127.0.0.1:1");
  EXPECT_EQ(got->main_container, "box");
  EXPECT_TRUE(got->sidecar);
}

TEST(TaskExecutorOptions, SidecarModeTakesItsValueAfterEqualsOnly) {
  EXPECT_TRUE(parse({"-enable-sidecar-mode"})->sidecar);
  EXPECT_FALSE(parse({"--enable-sidecar-mode=false"}, {{"ENABLE_SIDECAR_MODE", "true"}})->sidecar);
  EXPECT_FALSE(parse({}, {{"ENABLE_SIDECAR_MODE", "1"}})->sidecar);
  EXPECT_FALSE(parse({"--enable-sidecar-mode", "false"}));
}

TEST(TaskExecutorOptions, MistakesAreNamed) {
  for (const auto& [args, want] : std::initializer_list<std::pair<std::string_view, std::string>>{
           {"--nope", "--nope"},
           {"word", "word"},
           {"--data-dir", "--data-dir"},
           {"--log-max-size=-1", "log-max-size"},
           {"--data-dir=", "data-dir"},
           {"--enable-sidecar-mode=maybe", "enable-sidecar-mode"}}) {
    const auto got = parse({args});
    ASSERT_FALSE(got) << args;
    EXPECT_NE(got.error().message.find(want), std::string::npos) << got.error().message;
  }
}

}  // namespace
}  // namespace osb::taskexecutor
