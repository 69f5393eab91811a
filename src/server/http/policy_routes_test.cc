// The network policy of a sandbox through the server: its own routes, the endpoint of port 18080 and the proxy.

#include "server/http/policy_api_fixture.h"

namespace osb::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class PolicyRoutesTest : public testing::PolicyApiTest {};

TEST_F(PolicyRoutesTest, RequestsReachThePolicyApiWithTheStoredToken) {
  const std::string id = make(true);
  EXPECT_THAT(token(id), SizeIs(32));
  for (const std::string_view method : {"GET", "PUT", "PATCH", "DELETE"}) {
    const std::string body = method == "GET" ? "" : "[1]";
    EXPECT_EQ(ask(std::string(method), "/v1/sandboxes/" + id + "/networkpolicy", body, "forged").first, 200) << method;
    ASSERT_FALSE(seen_.empty());
    EXPECT_EQ(seen_.back().method, method);
    EXPECT_EQ(seen_.back().target, "/policy");
    EXPECT_EQ(seen_.back().token, token(id)) << "the caller's own is dropped";
    EXPECT_EQ(seen_.back().key, "") << "the API key stays here";
    EXPECT_EQ(seen_.back().body, body);
  }
}

TEST_F(PolicyRoutesTest, ASandboxWithoutAPolicyHasNoPolicyRoutes) {
  const std::string id = make(false);
  const auto [status, text] = ask("GET", "/sandboxes/" + id + "/networkpolicy");
  EXPECT_EQ(status, 400);
  EXPECT_THAT(text, HasSubstr("SANDBOX::API_NOT_SUPPORTED"));
  EXPECT_THAT(text, HasSubstr("the sandbox was made without one"));
  EXPECT_EQ(ask("GET", "/sandboxes/nothing/networkpolicy").first, 404);
  EXPECT_TRUE(seen_.empty());
}

TEST_F(PolicyRoutesTest, AnApiThatDoesNotAnswerIsUnavailableAndNamed) {
  const std::string id = make(true);
  osb::testing::await(io_, inside_.stop(std::chrono::milliseconds(0)));
  const auto [status, text] = ask("PUT", "/sandboxes/" + id + "/networkpolicy", "{}");
  EXPECT_EQ(status, 503);
  EXPECT_THAT(text, HasSubstr("stays as it is"));
}

TEST_F(PolicyRoutesTest, TheEndpointOfThePolicyApiIsTheServersProxyAndCarriesTheToken) {
  const std::string id = make(true);
  const auto [status, text] = ask("GET", "/v1/sandboxes/" + id + "/endpoints/18080");
  EXPECT_EQ(status, 200);
  EXPECT_THAT(text, HasSubstr("server:8080/v1/sandboxes/" + id + "/proxy/18080\""));
  EXPECT_THAT(text, HasSubstr("\"OPENSANDBOX-EGRESS-AUTH\":\"" + token(id) + "\""));
  const auto other = ask("GET", "/v1/sandboxes/" + id + "/endpoints/8000").second;
  EXPECT_THAT(other, HasSubstr("192.0.2.1:8000"));
  EXPECT_THAT(other, ::testing::Not(HasSubstr("EGRESS-AUTH")));
  const auto without = ask("GET", "/v1/sandboxes/" + make(false) + "/endpoints/18080");
  EXPECT_EQ(without.first, 200) << "clients ask for it before anything else";
  EXPECT_THAT(without.second, ::testing::Not(HasSubstr("EGRESS-AUTH")));
}

TEST_F(PolicyRoutesTest, TheTokenPassesToThePolicyApiAndNeverToTheSandbox) {
  const std::string id = make(true), plain = make(false);
  const auto shown = [&](const std::string& sandbox, const std::string& port) {
    EXPECT_EQ(ask("GET", "/sandboxes/" + sandbox + "/proxy/" + port + "/policy", "", "mine").first, 200);
    return seen_.back().token;
  };
  EXPECT_EQ(shown(id, "18080"), "mine") << "the API compares it itself";
  EXPECT_EQ(shown(id, "8080"), "");
  EXPECT_EQ(shown(id, "44772"), "");
  EXPECT_EQ(shown(plain, "18080"), "") << "a port of the sandbox like any other";
}

TEST_F(PolicyRoutesTest, TheTokenSurvivesARestart) {
  const std::string id = make(true);
  const std::string before = token(id);
  context_.reset();
  restart();
  EXPECT_EQ(token(id), before);
}

}  // namespace
}  // namespace osb::server
