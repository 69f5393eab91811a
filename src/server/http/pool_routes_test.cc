// /pools on the kubernetes backend, with a cluster in the test's process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/router.h"
#include "runtime/kubernetes/cluster_fixture.h"
#include "server/http/routes.h"
#include "server/store/store_fixture.h"

namespace osb::server {
namespace {

using osb::testing::await;
using ::testing::HasSubstr;

class TextBody final : public http::BodySource {
 public:
  explicit TextBody(std::string text) : text_(std::move(text)) {}
  net::awaitable<Result<std::string_view>> read() override {
    co_return std::exchange(over_, true) ? std::string_view() : std::string_view(text_);
  }
  std::optional<std::uint64_t> length() const override { return text_.size(); }

 private:
  const std::string text_;
  bool over_ = false;
};

class PoolRoutes : public ::testing::Test {
 protected:
  PoolRoutes() {
    store_ = std::move(open_sqlite_store({.path = temp_ / "store.db"}).value());
    backend_ = await(io_, runtime::KubernetesBackend::connect(io_.get_executor(), cluster_.options())).value();
    service_ = std::make_unique<SandboxService>(io_.get_executor(), *store_, *backend_, system_clock(), options_);
    proxy_ = std::make_unique<http::Client>(backend_->connector());
    context_.emplace(*service_, *proxy_, authenticator_, EndpointOptions{});
    add_pool_routes(router_, *context_);
  }
  ~PoolRoutes() override {
    await(io_, service_->close());
    service_.reset();
    await(io_, backend_->close());
  }

  // Status and body of the answer.
  std::pair<int, std::string> ask(std::string method, std::string target, std::string body = "") {
    http::Request request;
    request.method = std::move(method);
    request.target = std::move(target);
    request.headers.set("OPEN-SANDBOX-API-KEY", "secret");
    request.body = std::make_shared<TextBody>(std::move(body));
    http::Response response = await(io_, router_.dispatch(request));
    const std::string* text = std::get_if<std::string>(&response.body);
    return {response.status, text == nullptr ? "" : *text};
  }

  osb::testing::TempDir temp_;
  net::io_context io_{1};
  runtime::testing::TestCluster cluster_{io_};
  ServiceOptions options_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<runtime::KubernetesBackend> backend_;
  std::unique_ptr<SandboxService> service_;
  std::unique_ptr<http::Client> proxy_;
  Authenticator authenticator_{"secret"};
  std::optional<RouteContext> context_;
  http::Router router_;
};

TEST_F(PoolRoutes, APoolIsMadeShownResizedAndRemoved) {
  EXPECT_EQ(ask("GET", "/v1/pools"), std::pair(200, std::string(R"({"items":[]})")));
  const std::string capacity = R"({"bufferMax":5,"bufferMin":1,"poolMax":10,"poolMin":2})";
  const std::string wanted = R"({"name":"fast","template":{"spec":{}},"capacitySpec":)" + capacity + "}";
  const auto made = ask("POST", "/v1/pools", wanted);
  EXPECT_EQ(made.first, 201) << made.second;
  EXPECT_THAT(made.second, HasSubstr(R"({"name":"fast","capacitySpec":)" + capacity + R"(,"createdAt":")"));
  EXPECT_EQ(cluster_.count(runtime::kPools), 1u);
  const auto again = ask("POST", "/pools", wanted);
  EXPECT_EQ(again.first, 409);
  EXPECT_THAT(again.second, HasSubstr("KUBERNETES::POOL_ALREADY_EXISTS"));

  const auto resized =
      ask("PUT", "/v1/pools/fast", R"({"capacitySpec":{"bufferMax":6,"bufferMin":2,"poolMax":20,"poolMin":3}})");
  EXPECT_EQ(resized.first, 200) << resized.second;
  EXPECT_THAT(ask("GET", "/v1/pools/fast").second, HasSubstr(R"("poolMax":20)"));
  EXPECT_EQ(ask("DELETE", "/v1/pools/fast").first, 204);
  EXPECT_EQ(cluster_.count(runtime::kPools), 0u);
  for (const char* method : {"GET", "DELETE"}) {
    const auto missing = ask(method, "/v1/pools/fast");
    EXPECT_EQ(missing.first, 404) << method;
    EXPECT_THAT(missing.second, HasSubstr("KUBERNETES::POOL_NOT_FOUND"));
  }
  EXPECT_EQ(ask("POST", "/v1/pools", R"({"name":"Not a name"})").first, 422);
}

}  // namespace
}  // namespace osb::server
