#include "image/registry_rules.h"

#include <gmock/gmock.h>

#include "image/public_address.h"

namespace osb::image {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RegistryRules rules(std::vector<std::string> private_places, std::vector<std::string> insecure = {}) {
  RegistryRules out;
  for (const std::string& each : private_places) out.private_places.push_back(*RegistryName::parse(each));
  for (const std::string& each : insecure) out.insecure.push_back(*RegistryName::parse(each));
  return out;
}

bool allowed(const RegistryRules& rules, const std::string& origin, const std::string& address) {
  return rules.check(*http::Url::parse(origin), address).has_value();
}

TEST(PublicAddress, AddressesOfTheInternetArePublic) {
  for (const char* each : {"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1",
                           "192.167.1.1", "223.255.255.254", "168.63.129.17", "2606:4700::1111", "2a00:1450::1",
                           "64:ff9b::808:808", "::ffff:8.8.8.8", "2001:4860:4860::8888"}) {
    EXPECT_TRUE(is_public_address(each)) << each;
  }
}

TEST(PublicAddress, EveryOtherSpellingAndRangeIsNot) {
  for (const char* each : {"0.0.0.0",
                           "0.1.2.3",
                           "10.0.0.1",
                           "10.255.255.255",
                           "100.64.0.1",
                           "100.100.100.200",
                           "127.0.0.1",
                           "127.255.0.9",
                           "168.63.129.16",
                           "169.254.169.254",
                           "169.254.170.2",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.0.0.192",
                           "192.168.0.1",
                           "198.18.0.1",
                           "203.0.113.7",
                           "224.0.0.1",
                           "240.0.0.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "::127.0.0.1",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "::ffff:169.254.169.254",
                           "::ffff:0:7f00:1",
                           "64:ff9b::10.0.0.1",
                           "64:ff9b::7f00:1",
                           "64:ff9b:1::1",
                           "100::1",
                           "2001::1",
                           "2001:db8::1",
                           "2002:7f00:1::",
                           "2002:a00:1::",
                           "3fff::1",
                           "fc00::1",
                           "fd00:ec2::254",
                           "fe80::1",
                           "fec0::1",
                           "ff02::1",
                           "fe80::1%eth0",
                           "127.1",
                           "2130706433",
                           "0x7f000001",
                           "localhost",
                           ""}) {
    EXPECT_FALSE(is_public_address(each)) << each;
  }
}

TEST(PublicAddress, LoopbackIsKnownInEveryForm) {
  for (const char* each : {"127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback_address(each)) << each;
  }
  for (const char* each : {"128.0.0.1", "::2", "10.0.0.1", "x"}) EXPECT_FALSE(is_loopback_address(each)) << each;
}

TEST(PublicAddress, AddressesOfThisMachineAreItsOwn) {
  for (const char* each : {"127.0.0.1", "::ffff:127.0.0.1"}) EXPECT_TRUE(is_own_address(each)) << each;
  for (const char* each : {"192.0.2.1", "2001:db8::1", "x"}) EXPECT_FALSE(is_own_address(each)) << each;
}

TEST(RegistryName, HostPortAndAnyPortAreRead) {
  const struct {
    const char *text, *origin;
    bool named;
  } kCases[] = {
      {"Registry.example", "https://registry.example", true},
      {"registry.example", "http://REGISTRY.example:80", true},
      {"registry.example", "https://registry.example:5000", false},
      {"registry.example:5000", "https://registry.example:5000", true},
      {"registry.example:5000", "https://registry.example", false},
      {"registry.example:*", "https://registry.example:7", true},
      {"registry.example:*", "https://other.example:7", false},
      {"registry.example", "https://a.registry.example", false},
      {"[::1]:5000", "http://[::1]:5000", true},
      {"[::1]", "https://[::1]", true},
      {"[::1]:*", "http://[::1]:9", true},
  };
  for (const auto& each : kCases) {
    const auto name = RegistryName::parse(each.text);
    ASSERT_TRUE(name) << each.text;
    EXPECT_EQ(name->names(*http::Url::parse(each.origin)), each.named) << each.text << " " << each.origin;
  }
  for (const char* wrong : {"", "*", ":5000", "a:0", "a:65536", "a:x", "a:", "http://a", "a/b", "a b", "u@a", "[::1",
                            "[::1]x", "::1", "*.a"}) {
    EXPECT_FALSE(RegistryName::parse(wrong)) << wrong;
  }
}

TEST(RegistryRules, HostsThatAreNotListedArePublicAndHaveTls) {
  const RegistryRules none;
  EXPECT_TRUE(allowed(none, "https://registry.example", "8.8.8.8"));
  EXPECT_FALSE(allowed(none, "http://registry.example", "8.8.8.8"));
  EXPECT_FALSE(allowed(none, "https://registry.example", "10.0.0.1")) << "a public name with a private address";
  EXPECT_FALSE(allowed(none, "https://127.0.0.1:5000", "127.0.0.1"));
  EXPECT_FALSE(allowed(none, "https://localhost", "::1"));
}

TEST(RegistryRules, AListedHostIsReachedWhereItIsListed) {
  const RegistryRules some = rules({"registry.internal:5000", "127.0.0.1:*"}, {"old.internal"});
  EXPECT_TRUE(allowed(some, "https://registry.internal:5000", "10.0.0.1"));
  EXPECT_FALSE(allowed(some, "http://registry.internal:5000", "10.0.0.1")) << "private is not plain";
  EXPECT_TRUE(allowed(some, "http://registry.internal:5000", "127.0.0.1")) << "but nobody listens in on loopback";
  EXPECT_FALSE(allowed(some, "https://registry.internal:22", "10.0.0.1"));
  EXPECT_FALSE(allowed(some, "https://neighbour.internal:5000", "10.0.0.2"));
  EXPECT_TRUE(allowed(some, "http://127.0.0.1:1234", "127.0.0.1"));
  EXPECT_TRUE(allowed(some, "http://old.internal", "10.0.0.3"));
  EXPECT_FALSE(allowed(some, "http://old.internal:8080", "10.0.0.3"));
}

TEST(RegistryRules, ARefusalDoesNotRepeatTheAddressOfAName) {
  const auto refused = RegistryRules().check(*http::Url::parse("https://db.internal:5432"), "10.1.2.3");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Forbidden);
  EXPECT_THAT(refused.error().message, HasSubstr("db.internal:5432"));
  EXPECT_THAT(refused.error().message, Not(HasSubstr("10.1.2.3")));
  EXPECT_THAT(refused.error().message, HasSubstr("private_registries"));
}

}  // namespace
}  // namespace osb::image
