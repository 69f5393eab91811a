#pragma once

#include <string>
#include <utility>
#include <vector>

#include "http/client.h"
#include "http/router.h"
#include "http/server.h"
#include "server/http/routes.h"
#include "server/service/sandbox_service_fixture.h"
#include "support/await.h"

namespace osb::server::testing {

inline constexpr std::string_view kTokenHeader = "OPENSANDBOX-EGRESS-AUTH";

// Every port leads to one server.
struct OnePort final : runtime::PortMap {
  explicit OnePort(std::string where) : origin(std::move(where)) {}
  std::string origin;
  runtime::Route route(std::uint16_t) const override { return {origin, ""}; }
  runtime::ClientRoute client_route(std::uint16_t port) const override {
    return {"192.0.2.1:" + std::to_string(port), false};
  }
};

// A server whose sandboxes lead to a policy API of the test: it writes down what it is asked and answers as the test
// says.
class PolicyApiTest : public SandboxServiceTest {
 protected:
  // A request as the sandbox, or its policy API, has received it.
  struct Seen {
    std::string method, target, token, key, body;
  };

  void SetUp() override {
    SandboxServiceTest::SetUp();
    add_policy_routes(router_, context());
    add_vault_routes(router_, context());
    add_endpoint_routes(router_, context());
    add_proxy_routes(router_, context());
    auto listening = inside_.listen(http::Address::tcp("127.0.0.1", 0));
    ASSERT_TRUE(listening);
    origin_ = "127.0.0.1:" + std::to_string(listening->port);
    auto front = front_.listen(http::Address::tcp("127.0.0.1", 0));
    ASSERT_TRUE(front);
    front_origin_ = "127.0.0.1:" + std::to_string(front->port);
  }
  void TearDown() override {
    osb::testing::await(io_, front_.stop(std::chrono::milliseconds(0)));
    osb::testing::await(io_, inside_.stop(std::chrono::milliseconds(0)));
    SandboxServiceTest::TearDown();
  }

  RouteContext& context() {
    if (!context_) {
      EndpointOptions endpoints;
      endpoints.direct = true;
      context_.emplace(*service_, proxy_, authenticator_, std::move(endpoints));
    }
    return *context_;
  }
  std::string make(bool with_policy) {
    api::CreateSandbox create = wanted();
    if (with_policy) create.network_policy = api::NetworkPolicy{"deny", {{"allow", "example.com"}}};
    return make(std::move(create));
  }
  std::string make(api::CreateSandbox create) {
    const auto made = osb::testing::await(io_, service_->create(std::move(create), *admin_, {.wait = seconds(10)}));
    EXPECT_TRUE(made) << made.error().message;
    runtime::Instance instance = backend_.alive.at(made->record->id);
    instance.ports = std::make_shared<OnePort>(origin_);
    backend_.alive[instance.id] = instance;
    backend_.say(instance.id);
    return instance.id;
  }
  std::string token(const std::string& id) { return store_->find(id)->egress_token; }

  std::pair<int, std::string> ask(std::string method, std::string target, std::string body = "",
                                  std::string shown_token = "") {
    http::ClientRequest request;
    request.method = std::move(method);
    request.target = std::move(target);
    request.headers.set("OPEN-SANDBOX-API-KEY", "secret");
    request.headers.set("Host", "server:8080");
    if (!shown_token.empty()) request.headers.set(kTokenHeader, std::move(shown_token));
    request.body = std::move(body);
    return osb::testing::await(io_, send(std::move(request)));
  }
  net::awaitable<std::pair<int, std::string>> send(http::ClientRequest request) {
    auto response = co_await client_.send(front_origin_, std::move(request));
    if (!response) co_return std::pair{0, response.error().message};
    auto text = co_await response->body->read_all(1 << 20);
    co_return std::pair{response->status, text.value_or("")};
  }

  std::vector<Seen> seen_;
  Notifier asked_{io_.get_executor()};
  int status_ = 200;
  std::string answer_ = "{}";
  std::string origin_, front_origin_;
  http::Server inside_{
      io_.get_executor(), [this](http::Request& request) -> net::awaitable<http::Response> {
        auto body = co_await request.body->read_all(1 << 20);
        seen_.push_back({request.method, request.target, std::string(request.headers.get(kTokenHeader)),
                         std::string(request.headers.get("OPEN-SANDBOX-API-KEY")), body.value_or("")});
        asked_.notify_all();
        co_return http::json_response(status_, answer_);
      }};
  http::Client proxy_{backend_.connector()};
  Authenticator authenticator_{"secret"};
  std::optional<RouteContext> context_;
  http::Router router_;
  http::Server front_{io_.get_executor(), [this](http::Request& request) { return router_.dispatch(request); }};
  http::Client client_{http::make_plain_connector()};
};

}  // namespace osb::server::testing
