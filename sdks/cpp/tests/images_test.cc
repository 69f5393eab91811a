#include <algorithm>
#include <unistd.h>

#include "fixture.h"

namespace opensandbox {
namespace {

// These need an archive of docker save and a registry: tests/e2e/sdk_cpp/test_sdk_images.py makes both.
std::string given(const char* name) {
  const char* value = std::getenv(name);
  EXPECT_NE(value, nullptr) << name << " is not set";
  return value != nullptr ? value : "";
}

TEST(SdkImages, AreListed) {
  const SandboxManager manager(must(Client::open(test_config())));
  must(manager.images());
  const auto missing = manager.remove_image("no-such-image:1");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::Api);
  EXPECT_GE(missing.error().status, 400);
}

TEST(SdkImages, AreLoadedUsedAndRemoved) {
  const std::string archive = given("SDK_TEST_ARCHIVE");
  const auto client = must(Client::open(test_config()));
  const SandboxManager manager(client);
  const std::string name = "sdk-loaded-" + std::to_string(::getpid()) + ":1";
  const auto loaded = must(manager.load_image(archive, name));
  ASSERT_FALSE(loaded.empty());
  const auto sandbox = must(Sandbox::create(client, {.image = loaded[0].uri, .entrypoint = {"sleep", "1000"}}));
  EXPECT_EQ(must(sandbox.commands().run("echo from the archive")).stdout_text(), "from the archive\n");
  must(sandbox.kill());
  EXPECT_TRUE(std::ranges::any_of(must(manager.images()), [&](const Image& i) { return i.uri == loaded[0].uri; }));
  must(manager.remove_image(loaded[0].uri, true));
  const auto broken = manager.load_image(
      [done = false]() mutable -> Result<std::string_view> {
        return std::exchange(done, true) ? std::string_view() : std::string_view("this is no archive");
      },
      name);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().kind, ErrorKind::Api);
}

TEST(SdkImages, ArePulledWithProgress) {
  const std::string image = given("SDK_TEST_REGISTRY_IMAGE");
  const ImageAuth auth{.username = given("SDK_TEST_REGISTRY_USER"), .password = given("SDK_TEST_REGISTRY_PASSWORD")};
  const SandboxManager manager(must(Client::open(test_config())));
  int steps = 0;
  const auto pulled = must(manager.pull_image({.image = image, .auth = auth}, [&](const PullProgress& progress) {
    EXPECT_FALSE(progress.phase.empty());
    return ++steps > 0;
  }));
  EXPECT_GT(steps, 0);
  EXPECT_FALSE(pulled.digest.empty());
  must(manager.remove_image(image, true));
  const auto missing = manager.pull_image({.image = image + "-missing", .auth = auth});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::Api);
}

}  // namespace
}  // namespace opensandbox
