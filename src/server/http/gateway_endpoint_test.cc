#include "server/http/gateway_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/router.h"
#include "server/http/routes.h"
#include "server/service/sandbox_service_fixture.h"

namespace osb::server {
namespace {

using ::testing::HasSubstr;

config::IngressSection gateway(std::string mode, std::string address) {
  config::IngressSection out;
  out.gateway = true;
  out.route_mode = std::move(mode);
  out.address = std::move(address);
  out.active_key = 'a';
  out.keys = {{'b', "other"}, {'a', "\x01\x02\x03"}};
  return out;
}

TEST(GatewayEndpoint, NamesTheSandboxInTheWayThatTheGatewayReads) {
  const auto wildcard = gateway_endpoint(gateway("wildcard", "*.box.test"), "sb", 42, {});
  EXPECT_EQ(wildcard.endpoint, "sb-42.box.test");
  EXPECT_TRUE(wildcard.headers.empty());
  EXPECT_EQ(gateway_endpoint(gateway("uri", "gate.test/x/"), "sb", 42, {}).endpoint, "gate.test/x/sb/42");
  const auto header = gateway_endpoint(gateway("header", "gate.test"), "sb", 42, {});
  EXPECT_EQ(header.endpoint, "gate.test");
  EXPECT_EQ(header.headers.at("OpenSandbox-Ingress-To"), "sb-42");
}

TEST(GatewayEndpoint, SignsRoutesAsTheContractSays) {
  EXPECT_EQ(gateway_endpoint(gateway("wildcard", "*.box.test"), "sb", 42, 0).endpoint, "sb-42-0-8ccd73a1a.box.test");
  EXPECT_EQ(gateway_endpoint(gateway("uri", "gate.test"), "sb", 42, 0).endpoint, "gate.test/sb/42/0/8ccd73a1a");
  struct Row {
    char key;
    std::string secret, id;
    std::uint16_t port;
    std::uint64_t expires;
    const char* want;
  };
  std::string counted;
  for (int i = 0; i < 32; ++i) counted += static_cast<char>(i);
  for (const Row& row : std::initializer_list<Row>{
           {'k', "secret-key-bytes", "my-sandbox", 8080, 2000000000, "my-sandbox-8080-x2qxvk-f7c55e77k.t"},
           {'0', counted, "3f2504e0-4f89-11d3-9a0c-0305e82c3301", 18080, 4102444800,
            "3f2504e0-4f89-11d3-9a0c-0305e82c3301-18080-1vuhmo0-10979f8e0.t"}}) {
    config::IngressSection section = gateway("wildcard", "*.t");
    section.active_key = row.key;
    section.keys = {{row.key, row.secret}};
    EXPECT_EQ(gateway_endpoint(section, row.id, row.port, row.expires).endpoint, row.want);
  }
  const std::string last = gateway_endpoint(gateway("header", "gate.test"), "sb", 42, ~std::uint64_t{0})
                               .headers.at("OpenSandbox-Ingress-To");
  EXPECT_TRUE(last.starts_with("sb-42-3w5e11264sgsf-")) << last;
}

class GatewayRoutes : public testing::SandboxServiceTest {
 protected:
  void SetUp() override {
    SandboxServiceTest::SetUp();
    backend_.can.signed_routes = true;
    EndpointOptions options;
    options.gateway = gateway("wildcard", "*.box.test");
    context_.emplace(*service_, proxy_, authenticator_, std::move(options));
    add_endpoint_routes(router_, *context_);
  }
  std::string ask(const std::string& target) {
    http::Request request;
    request.method = "GET";
    request.target = target;
    request.headers.set("OPEN-SANDBOX-API-KEY", "secret");
    request.headers.set("Host", "server:8080");
    return std::get<std::string>(osb::testing::await(io_, router_.dispatch(request)).body);
  }

  http::Client proxy_{backend_.connector()};
  Authenticator authenticator_{"secret"};
  std::optional<RouteContext> context_;
  http::Router router_;
};

TEST_F(GatewayRoutes, EndpointsLeadThroughTheGateway) {
  const std::string id = running(), place = "/v1/sandboxes/" + id + "/endpoints/";
  EXPECT_THAT(ask(place + "8080"), HasSubstr("\"" + id + "-8080.box.test\""));
  EXPECT_THAT(ask(place + "44772"), HasSubstr("X-EXECD-ACCESS-TOKEN"));
  EXPECT_THAT(ask(place + "8080?use_server_proxy=true"), HasSubstr("/proxy/8080"));
  EXPECT_THAT(ask(place + "8080?expires=4102444800"), HasSubstr(id + "-8080-1vuhmo0-"));
  EXPECT_THAT(ask(place + "8080?expires=5"), HasSubstr("is not in the future"));
}

}  // namespace
}  // namespace osb::server
