#include "egress/sandbox/sandboxes.h"

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "support/await.h"

namespace osb::egress {
namespace {

const SteadyTime kStart{std::chrono::hours(1)};
const IpAddress kAddress = *parse_ip_address("10.88.0.7");

policy::Policy allow(std::string_view target) {
  return *policy::parse_policy(R"({"egress":[{"action":"allow","target":")" + std::string(target) + R"("}]})");
}

TEST(Budget, NamesUnderAWildcardStayBelowAKilobyteASecond) {
  Budget budget;
  double sent = 0;
  const int seconds = 20;
  for (int tick = 0; tick < seconds * 100; ++tick) {
    const SteadyTime now = kStart + std::chrono::milliseconds(tick * 10);
    for (std::size_t i = 0; i < 5; ++i) {
      if (budget.take_name(std::to_string(tick * 5 + static_cast<int>(i)), 200, now)) sent += 200;
    }
  }
  EXPECT_LT(sent / seconds, 1024);
  EXPECT_GT(sent / seconds, 300);
}

TEST(Budget, RepeatedNamesCostLittle) {
  Budget budget;
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(budget.take_name("a.b", 60, kStart)) << i;
}

TEST(OpenedAddresses, AnAddressIsOpenedAgainBeforeItCloses) {
  OpenedAddresses open;
  EXPECT_FALSE(open.covers(kAddress, 10, kStart));
  open.opened(kAddress, std::chrono::seconds(70), "a.com", kStart);
  EXPECT_TRUE(open.covers(kAddress, 10, kStart));
  EXPECT_TRUE(open.covers(kAddress, 0, kStart + std::chrono::seconds(10)));
  EXPECT_FALSE(open.covers(kAddress, 60, kStart));
  EXPECT_FALSE(open.covers(kAddress, 0, kStart + std::chrono::seconds(41)));
}

TEST(OpenedAddresses, ManyAddressesDoNotStayForever) {
  OpenedAddresses open;
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    open.opened(IpAddress::v4(i), std::chrono::seconds(60), "a.com", kStart + std::chrono::seconds(i / 100));
  }
  EXPECT_LT(open.size(), 20'000u);
}

class SandboxesTest : public ::testing::Test {
 protected:
  net::io_context io_{1};
  Sandboxes sandboxes_{io_.get_executor()};
};

TEST_F(SandboxesTest, AnAddressBelongsToTheSandboxThatHasItNow) {
  sandboxes_.set("a", kAddress, 1, allow("a.com"), "t", false);
  sandboxes_.set("b", kAddress, 1, allow("b.com"), "t", false);
  EXPECT_FALSE(sandboxes_.by_id("a"));
  EXPECT_EQ(sandboxes_.by_address(kAddress)->id, "b");
  sandboxes_.set("b", *parse_ip_address("10.88.0.8"), 2, allow("b.com"), "t", false);
  EXPECT_FALSE(sandboxes_.by_address(kAddress));
  sandboxes_.remove("b");
  EXPECT_EQ(sandboxes_.size(), 0u);
}

TEST_F(SandboxesTest, AnotherPolicyKeepsTheAddressesOfNamesThatAreStillAllowed) {
  sandboxes_.set("a", kAddress, 1, allow("*.com"), "t", false);
  const auto now = std::chrono::steady_clock::now();
  const SandboxPtr sandbox = sandboxes_.by_id("a");
  sandbox->opened.opened(IpAddress::v4(1), std::chrono::seconds(60), "keep.com", now);
  sandbox->opened.opened(IpAddress::v4(2), std::chrono::seconds(60), "revoked.com", now);
  std::vector<std::string> names;
  sandboxes_.on_reopen([&](const SandboxPtr&, const auto& addresses) {
    for (const auto& [address, name] : addresses) names.push_back(name);
  });
  sandboxes_.set("a", kAddress, 2, allow("keep.com"), "t", false);
  EXPECT_EQ(names, std::vector<std::string>{"keep.com"});
  EXPECT_EQ(sandbox->opened.size(), 0u);
}

TEST_F(SandboxesTest, OverlaysComeFirstAndWrongOnesChangeNothing) {
  sandboxes_.set("a", kAddress, 1, allow("a.com"), "t", false);
  ASSERT_TRUE(sandboxes_.set_overlays("a.com\n", ""));
  EXPECT_FALSE(sandboxes_.by_id("a")->matcher->name("a.com").allowed());
  EXPECT_FALSE(sandboxes_.set_overlays("", "a..b\n"));
  EXPECT_FALSE(sandboxes_.by_id("a")->matcher->name("a.com").allowed());
  ASSERT_TRUE(sandboxes_.set_overlays("", ""));
  EXPECT_TRUE(sandboxes_.by_id("a")->matcher->name("a.com").allowed());
}

TEST_F(SandboxesTest, DecisionsKeepTheLastNamesAndCountThem) {
  Decisions decisions(io_.get_executor());
  const Timestamp now{};
  for (int i = 0; i < 600; ++i) decisions.record("n" + std::to_string(i), {}, false, now);
  decisions.record("n599", {}, false, now);
  decisions.resolved("n599", {kAddress});
  const auto all = decisions.since(0);
  ASSERT_EQ(all.size(), Decisions::kMost);
  EXPECT_EQ(all.back().name, "n599");
  EXPECT_EQ(all.back().count, 2u);
  EXPECT_EQ(all.back().addresses.size(), 1u);
  const std::uint64_t seen = decisions.seq();
  EXPECT_TRUE(decisions.since(seen).empty());
  decisions.failed("n400", "rate limit");
  ASSERT_EQ(decisions.since(seen).size(), 1u);
  EXPECT_NE(to_json(decisions.since(seen)[0]).find(R"("note":"rate limit")"), std::string::npos);
}

}  // namespace
}  // namespace osb::egress
