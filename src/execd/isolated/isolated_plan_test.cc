#include "execd/isolated/isolated_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::execd {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(IsolatedPlan, ParentsComeFirstAndLaterOnesOfTheSamePathWin) {
  api::CreateIsolatedSession request;
  request.mounts = {{"/workspace/a/b", "rw"}, {"/workspace", "overlay"}};
  request.extra_writable = {"/workspace/a/b"};
  const auto spec = plan_isolated_session(request, {}, 1ULL << 40);
  ASSERT_TRUE(spec) << spec.error().message;
  std::vector<std::string> paths;
  for (const SessionMount& mount : spec->mounts) paths.push_back(mount.path);
  EXPECT_THAT(paths, ElementsAre("/workspace", "/workspace/a/b", "/workspace/a/b"));
  EXPECT_EQ(spec->upper_bytes, 8ULL << 30);
}

TEST(IsolatedPlan, OverlaysGetHalfOfTheMemory) {
  api::CreateIsolatedSession request;
  request.mounts = {{"/workspace", "overlay"}};
  EXPECT_EQ(plan_isolated_session(request, {}, 64 << 20)->upper_bytes, 32U << 20);
}

TEST(IsolatedPlan, PathsOutsideOfTheListAreRefused) {
  for (const char* path : {"/etc", "/workspacex", "/"}) {
    api::CreateIsolatedSession request;
    request.mounts = {{"/anywhere", "overlay"}};
    request.extra_writable = {path};
    EXPECT_FALSE(plan_isolated_session(request, {}, 1 << 30)) << path;
    request.extra_writable.clear();
    request.binds = {{"/mnt/a", path}};
    EXPECT_FALSE(plan_isolated_session(request, {}, 1 << 30)) << path;
    request.binds = {{path, "/mnt/a"}};
    EXPECT_FALSE(plan_isolated_session(request, {}, 1 << 30)) << path;
  }
}

TEST(IsolatedEnvironment, SecretsStayOutOfStrictSessions) {
  const Environment all = {{"PATH", "/bin"}, {"HOME", "/root"}, {"A", "1"}, {"my_token", "x"}, {"AWS_REGION", "x"}};
  api::CreateIsolatedSession request;
  EXPECT_THAT(isolated_environment(request, all),
              ElementsAre(Pair("A", "1"), Pair("HOME", "/root"), Pair("PATH", "/bin")));
  request.env_keys = {"A"};
  EXPECT_THAT(isolated_environment(request, all), ElementsAre(Pair("HOME", "/root"), Pair("PATH", "/bin")));
  request.env_allow = true;
  request.env_keys = {"my_token"};
  EXPECT_THAT(isolated_environment(request, all),
              ElementsAre(Pair("HOME", "/root"), Pair("PATH", "/bin"), Pair("my_token", "x")));
  request = {};
  request.strict = false;
  EXPECT_EQ(isolated_environment(request, all), all);
}

}  // namespace
}  // namespace osb::execd
