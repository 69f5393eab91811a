// Routes of things that tenants share: the principal of the request decides.

#include "http/client.h"
#include "http/router.h"
#include "server/http/routes.h"
#include "server/service/sandbox_service_fixture.h"
#include "support/await.h"

namespace osb::server {
namespace {

class PrincipalRoutesTest : public testing::SandboxServiceTest {
 protected:
  void SetUp() override {
    SandboxServiceTest::SetUp();
    add_image_routes(router_, context());
    add_pool_routes(router_, context());
  }
  // Past the authentication: the administrator has the key, a member does not.
  int status(std::string method, std::string target, bool administrator) {
    http::Request request;
    request.method = std::move(method);
    request.target = std::move(target);
    if (administrator) request.headers.set("OPEN-SANDBOX-API-KEY", "secret");
    return osb::testing::await(io_, router_.dispatch(request)).status;
  }

  RouteContext& context() {
    if (!context_) context_.emplace(*service_, proxy_, authenticator_, EndpointOptions{});
    return *context_;
  }
  http::Client proxy_{backend_.connector()};
  Authenticator authenticator_{"secret"};
  std::optional<RouteContext> context_;
  http::Router router_;
};

TEST_F(PrincipalRoutesTest, OnlyTheAdministratorChangesImages) {
  constexpr int kNoImageStore = 501;  // of the fake backend: the request got that far
  EXPECT_EQ(status("DELETE", "/v1/images?uri=debian", false), 403);
  EXPECT_EQ(status("POST", "/images/load", false), 403);
  EXPECT_EQ(status("DELETE", "/v1/images?uri=debian", true), kNoImageStore);
  EXPECT_EQ(status("POST", "/images/load", true), kNoImageStore);
  for (const bool administrator : {false, true}) {
    EXPECT_EQ(status("GET", "/v1/images", administrator), kNoImageStore);
    EXPECT_EQ(status("POST", "/v1/images/pull", administrator), kNoImageStore);
  }
}

TEST_F(PrincipalRoutesTest, OnlyTheAdministratorChangesPools) {
  constexpr int kNoPools = 501;  // of the fake backend: the request got that far
  EXPECT_EQ(status("DELETE", "/v1/pools/a", false), 403);
  EXPECT_EQ(status("DELETE", "/v1/pools/a", true), kNoPools);
  for (const bool administrator : {false, true}) {
    EXPECT_EQ(status("GET", "/pools", administrator), kNoPools);
    EXPECT_EQ(status("GET", "/v1/pools/a", administrator), kNoPools);
  }
}

}  // namespace
}  // namespace osb::server
