#include "sandboxd/policy/network_policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandboxd/network/network_fixture.h"

// With the kernel's own rules. 11.0.0.0/8 is public, and nothing of the tests needs to answer there.
namespace osb::sandboxd {
namespace {

using namespace osb::sandboxd::testing;
using api::egress::Answer;
using api::egress::OpenAddresses;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Problem = Answer::Problem;

constexpr std::uint32_t kPublic = 0x0b000001;  // 11.0.0.1

PolicyRecord record(std::string_view json, std::uint64_t revision = 1) {
  return {.policy = must(policy::parse_policy(json)), .revision = revision};
}

OpenAddresses request(const std::string& name, std::initializer_list<const char*> addresses, std::uint64_t revision = 1,
                      std::uint32_t seconds = 60) {
  OpenAddresses out{.seq = 1, .id = "a", .revision = revision, .addresses = {}};
  for (const char* each : addresses) out.addresses.push_back({*parse_ip_address(each), seconds, name});
  return out;
}

const NetworkPolicies::Save kSave = [](const PolicyRecord&) { return Result<void>(); };

void with_policies(const std::function<void(World&, NetworkPolicies&, const Slot&)>& body) {
  in_world([&](World& world) {
    const Slot slot = world.take();
    NetworkPolicies policies(*world.firewall, world.config);
    body(world, policies, slot);
  });
}

TEST(NetworkPolicies, RequestsOfAHostileEgressProcessAreRefused) {
  with_policies([](World& world, NetworkPolicies& policies, const Slot& slot) {
    must(policies.add("a", slot.index,
                      record(R"({"egress":[{"action":"allow","target":"*.example.com"},
                                           {"action":"deny","target":"11.0.0.9"},
                                           {"action":"allow","target":"10.1.0.0/16"},
                                           {"action":"deny","target":"10.1.1.1"}]})",
                             3),
                      NetworkPolicies::Sandbox::New));
    struct {
      const char* why;
      OpenAddresses request;
      Problem problem;
    } rows[] = {
        {"an older revision", request("a.example.com", {"11.0.0.1"}, 2), Problem::Stale},
        {"a later revision", request("a.example.com", {"11.0.0.1"}, 4), Problem::Stale},
        {"a denied name", request("evil.com", {"11.0.0.1"}, 3), Problem::Refused},
        {"a name above the allowed ones", request("example.com", {"11.0.0.1"}, 3), Problem::Refused},
        {"a denied address", request("a.example.com", {"11.0.0.1", "11.0.0.9"}, 3), Problem::Refused},
        {"deny before allow", request("a.example.com", {"10.1.1.1"}, 3), Problem::Refused},
        {"a private address", request("a.example.com", {"10.2.0.1"}, 3), Problem::Refused},
        {"metadata", request("a.example.com", {"169.254.169.254"}, 3), Problem::Refused},
        {"loopback", request("a.example.com", {"127.0.0.1"}, 3), Problem::Refused},
        {"multicast", request("a.example.com", {"224.0.0.251"}, 3), Problem::Refused},
        {"everything", request("a.example.com", {"0.0.0.0"}, 3), Problem::Refused},
        {"another sandbox", request("a.example.com", {"10.90.0.3"}, 3), Problem::Refused},
        {"a long lifetime", request("a.example.com", {"11.0.0.1"}, 3, 361), Problem::Limit},
        {"for ever", request("a.example.com", {"11.0.0.1"}, 3, 0), Problem::Limit},
    };
    for (const auto& row : rows) EXPECT_EQ(policies.open(row.request).problem, row.problem) << row.why;
    auto unknown = request("a.example.com", {"11.0.0.1"}, 3);
    unknown.id = "b";
    EXPECT_EQ(policies.open(unknown).problem, Problem::Stale);
    EXPECT_THAT(world.firewall->opened(slot.index), IsEmpty()) << "a refusal opens nothing";
    EXPECT_TRUE(policies.open(request("a.example.com", {"11.0.0.1", "10.1.2.3", "2606:4700::1"}, 3)).ok());
    EXPECT_THAT(world.firewall->opened(slot.index), UnorderedElementsAre(kPublic, 0x0a010203U));
  });
}

TEST(NetworkPolicies, ASandboxHasAtMost4096Addresses) {
  with_policies([](World&, NetworkPolicies& policies, const Slot& slot) {
    must(policies.add("a", slot.index, record(R"({"egress":[{"action":"allow","target":"a.com"}]})"),
                      NetworkPolicies::Sandbox::New));
    OpenAddresses many = request("a.com", {});
    for (std::uint32_t i = 0; i < 4096; ++i) many.addresses.push_back({IpAddress::v4(kPublic + i), 60, "a.com"});
    EXPECT_TRUE(policies.open(many).ok());
    EXPECT_TRUE(policies.open(many).ok()) << "those that are open already cost nothing";
    EXPECT_EQ(policies.open(request("a.com", {"12.0.0.1"})).problem, Problem::Limit);
  });
}

TEST(NetworkPolicies, AChangeKeepsAddressesOfAllowedNamesAndClosesTheOthers) {
  with_policies([](World& world, NetworkPolicies& policies, const Slot& slot) {
    must(policies.add("a", slot.index,
                      record(R"({"egress":[{"action":"allow","target":"a.com"},{"action":"allow","target":"b.com"}]})"),
                      NetworkPolicies::Sandbox::New));
    ASSERT_TRUE(policies.open(request("a.com", {"11.0.0.1", "11.0.0.3"})).ok());
    ASSERT_TRUE(policies.open(request("b.com", {"11.0.0.2", "11.0.0.3"})).ok());
    PolicyRecord stored;
    const auto changed =
        policies.change("a", 1, must(policy::parse_policy(R"({"egress":[{"action":"allow","target":"a.com"}]})")),
                        [&](const PolicyRecord& next) -> Result<void> { return stored = next, Result<void>(); });
    ASSERT_TRUE(changed) << changed.error().message;
    EXPECT_EQ(changed->revision, 2U);
    EXPECT_EQ(stored, *changed);
    EXPECT_EQ(policies.find("a")->record, *changed);
    EXPECT_THAT(world.firewall->opened(slot.index), UnorderedElementsAre(0x0b000001U, 0x0b000003U));
    EXPECT_EQ(policies.open(request("a.com", {"11.0.0.9"}, 1)).problem, Problem::Stale)
        << "an answer that was on its way";
    const auto stale = policies.change("a", 1, {}, kSave);
    ASSERT_FALSE(stale);
    EXPECT_EQ(stale.error().code, Code::Conflict);
  });
}

TEST(NetworkPolicies, AChangeThatCannotBeStoredChangesNothing) {
  with_policies([](World& world, NetworkPolicies& policies, const Slot& slot) {
    must(policies.add("a", slot.index, record(R"({"egress":[{"action":"allow","target":"203.0.113.10"}]})"),
                      NetworkPolicies::Sandbox::New));
    const UniqueFd web = listen_in(world.internet.get(), INADDR_ANY, 80);
    const auto failed = policies.change("a", 1, must(policy::parse_policy(R"({"defaultAction":"allow"})")),
                                        [](const PolicyRecord&) { return fail(Code::Internal, "the disk is full"); });
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().message, HasSubstr("the disk is full"));
    EXPECT_EQ(policies.find("a")->record.revision, 1U);
    EXPECT_TRUE(connect_from(slot.netns.get(), kServer, 80, kLong));
    EXPECT_FALSE(connect_from(slot.netns.get(), kInternetNeighbour, 80, kLong));
    policy::Policy wide;
    wide.egress.resize(4097);
    EXPECT_EQ(policies.change("a", 1, wide, kSave).error().code, Code::TooLarge);
  });
}

TEST(NetworkPolicies, TheOperatorsRulesCloseWhatIsOpenAndBeatTheUsers) {
  with_policies([](World& world, NetworkPolicies& policies, const Slot& slot) {
    must(policies.add("a", slot.index, record(R"({"egress":[{"action":"allow","target":"*.com"},
                                           {"action":"allow","target":"203.0.113.10"}]})"),
                      NetworkPolicies::Sandbox::New));
    const UniqueFd web = listen_in(world.internet.get(), INADDR_ANY, 80);
    ASSERT_TRUE(policies.open(request("a.com", {"11.0.0.1"})).ok());
    ASSERT_TRUE(policies.open(request("b.com", {"11.0.0.2"})).ok());
    EXPECT_TRUE(connect_from(slot.netns.get(), kServer, 80, kLong));
    must(policies.set_overlays({.deny = must(policy::parse_overlay("b.com\n203.0.113.0/24\n", policy::Action::Deny)),
                                .allow = must(policy::parse_overlay("ok.org\n", policy::Action::Allow))}));
    EXPECT_THAT(world.firewall->opened(slot.index), ElementsAre(kPublic));
    EXPECT_FALSE(connect_from(slot.netns.get(), kServer, 80, kLong));
    EXPECT_EQ(policies.open(request("b.com", {"11.0.0.2"})).problem, Problem::Refused);
    EXPECT_TRUE(policies.open(request("ok.org", {"11.0.0.4"})).ok());
    EXPECT_EQ(policies.find("a")->record.policy.egress.size(), 2U) << "they are not the user's";
  });
}

TEST(NetworkPolicies, AuditLetsTrafficPassButTheOperatorsRulesHold) {
  with_policies([](World& world, NetworkPolicies& policies, const Slot& slot) {
    PolicyRecord audited = record(R"({"egress":[{"action":"deny","target":"203.0.113.10"}]})");
    audited.audit = true;
    must(policies.add("a", slot.index, audited, NetworkPolicies::Sandbox::New));
    const UniqueFd web = listen_in(world.internet.get(), INADDR_ANY, 80);
    EXPECT_TRUE(connect_from(slot.netns.get(), kServer, 80, kLong));
    EXPECT_FALSE(connect_from(slot.netns.get(), kMetadata, 80, kLong));
    must(policies.set_overlays({.deny = must(policy::parse_overlay("203.0.113.10\n", policy::Action::Deny))}));
    EXPECT_FALSE(connect_from(slot.netns.get(), kServer, 80, kLong));
  });
}

TEST(NetworkPolicies, AfterARestartAWiderPolicyKeepsWhatIsOpen) {
  with_policies([](World& world, NetworkPolicies& policies, const Slot& slot) {
    const char* policy = R"({"egress":[{"action":"allow","target":"a.com"}]})";
    must(policies.add("a", slot.index, record(policy), NetworkPolicies::Sandbox::New));
    ASSERT_TRUE(policies.open(request("a.com", {"11.0.0.1"})).ok());
    NetworkPolicies next(*world.firewall, world.config);
    must(next.add("a", slot.index, record(policy), NetworkPolicies::Sandbox::FoundAgain));
    must(next.change("a", 1,
                     must(policy::parse_policy(
                         R"({"egress":[{"action":"allow","target":"b.com"},{"action":"allow","target":"a.com"}]})")),
                     kSave));
    EXPECT_THAT(world.firewall->opened(slot.index), ElementsAre(kPublic));
    must(next.change("a", 2, must(policy::parse_policy(R"({"egress":[{"action":"allow","target":"b.com"}]})")), kSave));
    EXPECT_THAT(world.firewall->opened(slot.index), IsEmpty()) << "its name is not known: closed rather than left open";
  });
}

TEST(NetworkPolicies, ChangesAreTold) {
  with_policies([](World&, NetworkPolicies& policies, const Slot& slot) {
    std::vector<std::string> told;
    policies.on_change([&](const std::string& id) { told.push_back(id); });
    must(policies.add("a", slot.index, record("{}"), NetworkPolicies::Sandbox::New));
    EXPECT_EQ(policies.find("a")->address, slot.address);
    EXPECT_EQ(policies.list().size(), 1U);
    policies.remove("a");
    policies.remove("unknown");
    EXPECT_THAT(told, ElementsAre("a", "a"));
    EXPECT_TRUE(policies.list().empty());
  });
}

}  // namespace
}  // namespace osb::sandboxd
