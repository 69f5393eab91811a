#include "tls/route_signature.h"

#include <limits>

#include <gtest/gtest.h>

namespace osb::tls {
namespace {

std::string first_32_bytes() {
  std::string out;
  for (char c = 0; c < 32; ++c) out += c;
  return out;
}

struct Vector {
  RouteKey key;
  const char* id;
  std::uint16_t port;
  std::uint64_t expires;
  RouteSignature want;
};

std::vector<Vector> vectors() {
  return {
      {{'a', "\x01\x02\x03"}, "sb", 42, 0, {"0", "8ccd73a1a"}},
      {{'k', "secret-key-bytes"}, "my-sandbox", 8080, 2'000'000'000, {"x2qxvk", "f7c55e77k"}},
      {{'0', first_32_bytes()}, "3f2504e0-4f89-11d3-9a0c-0305e82c3301", 18080, 4'102'444'800, {"1vuhmo0", "10979f8e0"}},
  };
}

TEST(RouteSignature, MatchesTheVectorsOfTheContract) {
  for (const Vector& vector : vectors()) {
    EXPECT_EQ(sign_route(vector.key, vector.id, vector.port, vector.expires), vector.want) << vector.id;
  }
}

TEST(RouteSignature, ASignedRouteIsAcceptedUntilItsLastSecond) {
  for (const Vector& vector : vectors()) {
    const RouteKeys keys = {{vector.key.id, vector.key.secret}, {'z', "another"}};
    EXPECT_TRUE(verify_route(keys, vector.id, vector.port, vector.want, vector.expires));
    const auto late = verify_route(keys, vector.id, vector.port, vector.want, vector.expires + 1);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Code::Unauthorized);
  }
}

TEST(RouteSignature, AChangedRouteIsRefused) {
  const RouteKeys keys = {{'k', "secret-key-bytes"}, {'b', "another"}};
  const RouteSignature good = {"x2qxvk", "f7c55e77k"};
  ASSERT_TRUE(verify_route(keys, "my-sandbox", 8080, good, 0));
  struct {
    const char* why;
    const char* id;
    std::uint16_t port;
    RouteSignature given;
    Code want;
  } rows[] = {
      {"another sandbox", "my-sandboy", 8080, good, Code::Unauthorized},
      {"another port", "my-sandbox", 8081, good, Code::Unauthorized},
      {"a later expiry", "my-sandbox", 8080, {"x2qxvl", "f7c55e77k"}, Code::Unauthorized},
      {"one digit", "my-sandbox", 8080, {"x2qxvk", "f7c55e76k"}, Code::Unauthorized},
      {"another key", "my-sandbox", 8080, {"x2qxvk", "f7c55e77b"}, Code::Unauthorized},
      {"an unknown key", "my-sandbox", 8080, {"x2qxvk", "f7c55e77c"}, Code::Unauthorized},
      {"a short signature", "my-sandbox", 8080, {"x2qxvk", "f7c55e7k"}, Code::InvalidRequest},
      {"upper case", "my-sandbox", 8080, {"x2qxvk", "F7C55E77k"}, Code::InvalidRequest},
      {"no expiry", "my-sandbox", 8080, {"", "f7c55e77k"}, Code::InvalidRequest},
      {"a leading zero", "my-sandbox", 8080, {"0x2qxvk", "f7c55e77k"}, Code::InvalidRequest},
  };
  for (const auto& row : rows) {
    const auto checked = verify_route(keys, row.id, row.port, row.given, 0);
    ASSERT_FALSE(checked) << row.why;
    EXPECT_EQ(checked.error().code, row.want) << row.why;
  }
}

TEST(RouteSignature, ExpiriesAreSecondsInBase36) {
  EXPECT_EQ(encode_route_expiry(std::numeric_limits<std::uint64_t>::max()), "3w5e11264sgsf");
  EXPECT_EQ(decode_route_expiry("3w5e11264sgsf"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(decode_route_expiry("0"), 0u);
  for (const char* wrong : {"", "00", "-1", "3w5e11264sgsg", "zzzzzzzzzzzzz", "10000000000000", "A", " 1", "1 "}) {
    EXPECT_EQ(decode_route_expiry(wrong), std::nullopt) << wrong;
  }
}

TEST(RouteSignature, RoutesHaveTheShapeOfTheirGateway) {
  const RouteSignature signature = {"x2qxvk", "f7c55e77k"};
  struct {
    RouteMode mode;
    const char* address;
    std::optional<RouteSignature> signature;
    const char* endpoint;
    const char* header;
  } rows[] = {
      {RouteMode::Wildcard, "*.example.com", {}, "sb-80.example.com", ""},
      {RouteMode::Wildcard, "*.example.com", signature, "sb-80-x2qxvk-f7c55e77k.example.com", ""},
      {RouteMode::Header, "gw.example.com:8443", {}, "gw.example.com:8443", "sb-80"},
      {RouteMode::Header, "gw.example.com", signature, "gw.example.com", "sb-80-x2qxvk-f7c55e77k"},
      {RouteMode::Uri, "gw.example.com", {}, "gw.example.com/sb/80", ""},
      {RouteMode::Uri, "gw.example.com", signature, "gw.example.com/sb/80/x2qxvk/f7c55e77k", ""},
  };
  for (const auto& row : rows) {
    const GatewayRoute route = gateway_route(row.mode, row.address, "sb", 80, row.signature);
    EXPECT_EQ(route.endpoint, row.endpoint);
    EXPECT_EQ(route.header, row.header);
  }
}

}  // namespace
}  // namespace osb::tls
