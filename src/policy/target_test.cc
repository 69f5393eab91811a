#include "policy/target.h"

#include <gtest/gtest.h>

namespace osb::policy {
namespace {

std::string describe(std::string_view text) {
  const auto target = parse_target(text);
  if (!target) return "refused: " + target.error().message;
  if (const auto* name = std::get_if<NameTarget>(&*target)) return (name->below ? "below " : "name ") + name->name;
  return "network " + format_ip_prefix(std::get<IpPrefix>(*target));
}

TEST(PolicyTarget, IsAnAddressANetworkOrAName) {
  EXPECT_EQ(describe("1.2.3.4"), "network 1.2.3.4/32");
  EXPECT_EQ(describe("2001:DB8::1"), "network 2001:db8::1/128");
  EXPECT_EQ(describe("::ffff:1.2.3.4"), "network 1.2.3.4/32");
  EXPECT_EQ(describe("10.1.2.3/8"), "network 10.0.0.0/8");
  EXPECT_EQ(describe("API.Example.com"), "name api.example.com");
  EXPECT_EQ(describe("example.com."), "name example.com");
  EXPECT_EQ(describe("*.Example.com"), "below example.com");
  EXPECT_EQ(describe("*.com."), "below com");
  EXPECT_EQ(describe("localhost"), "name localhost");
  EXPECT_EQ(describe("_dmarc.a--b.xn--bcher-kva.example"), "name _dmarc.a--b.xn--bcher-kva.example");
}

TEST(PolicyTarget, TargetsThatNothingCanMatchAreRefused) {
  const std::string label(64, 'a');
  std::string name;
  for (int i = 0; i < 64; ++i) name += "abc.";
  for (const std::string& text : {std::string(""),
                                  std::string("."),
                                  std::string("*"),
                                  std::string("*."),
                                  std::string("**.com"),
                                  std::string("a.*.com"),
                                  std::string("a*.com"),
                                  std::string("*.*.com"),
                                  std::string("a..com"),
                                  std::string(".com"),
                                  std::string("a.com.."),
                                  std::string("fe80::1%eth0"),
                                  std::string("10.0.0.0/33"),
                                  std::string("10.0.0.0/x"),
                                  std::string("a.com/8"),
                                  std::string("https://a.com"),
                                  std::string("a.com:443"),
                                  std::string("a b.com"),
                                  std::string("b\xc3\xbc"
                                              "cher.de"),
                                  std::string("256.1.1.1"),
                                  std::string("1.2.3"),
                                  std::string("010.0.0.1"),
                                  std::string("a.com\0", 6),
                                  label + ".com",
                                  name + "com"}) {
    EXPECT_TRUE(describe(text).starts_with("refused: ")) << text << " is " << describe(text);
  }
}

TEST(PolicyTarget, LongestNamesAreTaken) {
  std::string name;
  for (int i = 0; i < 3; ++i) name += std::string(63, 'a') + ".";
  EXPECT_TRUE(parse_host_name(name + std::string(61, 'b')));
  EXPECT_TRUE(parse_host_name(name + std::string(61, 'b') + "."));
  EXPECT_FALSE(parse_host_name(name + std::string(62, 'b')));
}

}  // namespace
}  // namespace osb::policy
