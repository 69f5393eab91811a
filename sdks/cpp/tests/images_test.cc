#include <algorithm>
#include <unistd.h>

#include "fixture.h"

namespace opensandbox {
namespace {

// The server may have no image store of its own (Docker, Kubernetes): then its error is what counts.
TEST(SdkImages, AreListedOrRefusedWithAReason) {
  const SandboxManager manager(must(Client::open(test_config())));
  const auto images = manager.images();
  if (!images) {
    EXPECT_EQ(images.error().kind, ErrorKind::Api);
    return;
  }
  const auto missing = manager.remove_image("no-such-image:1");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::Api);
  EXPECT_GE(missing.error().status, 400);
}

// SDK_TEST_ARCHIVE names a docker-save archive, SDK_TEST_REGISTRY_IMAGE an image that can be pulled.
TEST(SdkImages, AreLoadedUsedAndRemoved) {
  const char* archive = std::getenv("SDK_TEST_ARCHIVE");
  if (archive == nullptr) GTEST_SKIP() << "SDK_TEST_ARCHIVE is not set";
  const auto client = must(Client::open(test_config()));
  const SandboxManager manager(client);
  const std::string name = "sdk-loaded-" + std::to_string(::getpid()) + ":1";
  const auto loaded = must(manager.load_image(archive, name));
  ASSERT_FALSE(loaded.empty());
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
  const char* image = std::getenv("SDK_TEST_REGISTRY_IMAGE");
  if (image == nullptr) GTEST_SKIP() << "SDK_TEST_REGISTRY_IMAGE is not set";
  const SandboxManager manager(must(Client::open(test_config())));
  int steps = 0;
  const auto pulled = must(manager.pull_image({.image = image}, [&](const PullProgress& progress) {
    EXPECT_FALSE(progress.phase.empty());
    return ++steps > 0;
  }));
  EXPECT_GT(steps, 0);
  EXPECT_FALSE(pulled.digest.empty());
  must(manager.remove_image(image, true));
  const auto missing = manager.pull_image({.image = std::string(image) + "-missing"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::Api);
}

}  // namespace
}  // namespace opensandbox
