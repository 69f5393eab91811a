#include "sandboxd/sandbox/check_request.h"

#include <gtest/gtest.h>

#include "image/manifest.h"

namespace osb::sandboxd {
namespace {

using api::native::CreateSandbox;

TEST(CheckRequest, AnOrdinaryRequestPasses) {
  CreateSandbox spec;
  EXPECT_TRUE(check_request(spec));
  spec.hostname = "Build_7.example-1";
  spec.limits.shm_bytes = 4096;
  spec.ulimits = {{"nofile", 64}, {"core", 0}, {"fsize", 0}};
  spec.platform = image::host_platform().os + "/" + image::host_platform().architecture;
  EXPECT_TRUE(check_request(spec));
}

TEST(CheckRequest, HostnamesCannotAddLinesToFiles) {
  for (const char* name : {"a b", "a\nb", "../x", "a\tb", "a#", "ä"}) {
    CreateSandbox spec;
    spec.hostname = name;
    const auto checked = check_request(spec);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().code, Code::InvalidRequest);
    EXPECT_TRUE(checked.error().message.starts_with("/hostname: ")) << checked.error().message;
  }
}

TEST(CheckRequest, NoLimitIsSoLowThatItMeansNoneOrNothingStarts) {
  CreateSandbox spec;
  spec.limits.shm_bytes = 0;
  EXPECT_TRUE(check_request(spec).error().message.starts_with("/limits/shm_bytes: "));
  spec.limits.shm_bytes.reset();
  spec.ulimits = {{"core", 2}};
  EXPECT_TRUE(check_request(spec).error().message.starts_with("/ulimits/core: "));
  spec.ulimits = {{"nofile", 63}};
  EXPECT_TRUE(check_request(spec).error().message.starts_with("/ulimits/nofile: "));
}

TEST(CheckRequest, AnotherMachinesPlatformIsUnsupported) {
  CreateSandbox spec;
  spec.platform = "linux/s390x";
  const auto checked = check_request(spec);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::Unsupported);
  EXPECT_NE(checked.error().message.find(image::host_platform().architecture), std::string::npos);
  spec.platform = "a/b/c/d/e";
  EXPECT_EQ(check_request(spec).error().code, Code::InvalidRequest);
}

TEST(CheckRequest, ANetworkPolicyNeedsABridgeAndRulesThatMakeSense) {
  api::native::CreateSandbox spec;
  EXPECT_FALSE(*network_policy_of(spec));
  spec.network_policy = api::NetworkPolicy{"deny", {{"allow", "*.example.com"}, {"deny", "", {25}}}};
  const auto policy = network_policy_of(spec);
  ASSERT_TRUE(policy && *policy);
  EXPECT_EQ((*policy)->egress.size(), 2U);
  for (const auto mode : {api::native::NetworkMode::Host, api::native::NetworkMode::None}) {
    spec.network = mode;
    EXPECT_EQ(network_policy_of(spec).error().code, Code::InvalidRequest);
    EXPECT_TRUE(network_policy_of(spec).error().message.starts_with("/networkPolicy: "));
  }
  spec.network = api::native::NetworkMode::Bridge;
  spec.network_policy = api::NetworkPolicy{"deny", {{"allow", "a.*.com"}}};
  EXPECT_TRUE(network_policy_of(spec).error().message.starts_with("/networkPolicy/egress/0/target: "));
  spec.network_policy = api::NetworkPolicy{"block", {}};
  EXPECT_TRUE(network_policy_of(spec).error().message.starts_with("/networkPolicy/defaultAction: "));
  spec.network_policy = api::NetworkPolicy{"deny", std::vector<api::NetworkRule>(100'000, {"allow", "a.com"})};
  EXPECT_EQ(network_policy_of(spec).error().code, Code::TooLarge);
}

}  // namespace
}  // namespace osb::sandboxd
