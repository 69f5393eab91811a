#include <boost/json/parse.hpp>
#include <gmock/gmock.h>

#include "egress/host/host_api_fixture.h"
#include "http/server.h"
#include "tls/server.h"
#include "tls/test_certificates.h"

namespace osb::egress::testing {
namespace {

namespace json = boost::json;

// A collector and a webhook of the operator's.
class HostReportsTest : public HostApi {
 protected:
  link::Hello hello() override {
    operator_.emplace(io_.get_executor(), [this](http::Request& request) { return take(request); }, options());
    const auto at = operator_->listen(http::Address::tcp("127.0.0.1", 0));
    EXPECT_TRUE(at);
    const std::string origin = (secure() ? "https://" : "http://") + at->to_string();
    return {.otlp_endpoint = origin,
            .otlp_interval = std::chrono::milliseconds(20),
            .deny_webhook = origin + "/denied",
            .trust = secure() ? root_.certificate_pem() : ""};
  }
  virtual bool secure() const { return false; }
  void TearDown() override {
    HostApi::TearDown();
    await(io_, operator_->stop(std::chrono::seconds(5)));
  }

  // The next body that was sent to a path.
  json::value told(const std::string& path) {
    await(io_, [](HostReportsTest& test, const std::string& wanted) -> net::awaitable<void> {
      (void)co_await test.told_.wait_until([&] { return !test.bodies_[wanted].empty(); });
    }(*this, path));
    auto body = json::parse(bodies_[path].front());
    bodies_[path].pop_front();
    return body;
  }
  // The points of a metric, in the first document that has some which fit.
  template <typename Fits>
  json::array points(std::string_view name, Fits fits) {
    for (;;) {
      const json::value document = told("/v1/metrics");
      for (const json::value& metric : document.at_pointer("/resourceMetrics/0/scopeMetrics/0/metrics").as_array()) {
        if (metric.at("name").as_string() != name) continue;
        for (const char* kind : {"sum", "gauge", "histogram"}) {
          if (!metric.as_object().contains(kind)) continue;
          const json::array& found = metric.at(kind).at("dataPoints").as_array();
          if (fits(found)) return found;
        }
      }
    }
  }

 private:
  net::awaitable<http::Response> take(http::Request& request) {
    auto body = co_await request.body->read_all(1 << 20);
    EXPECT_TRUE(body);
    bodies_[std::string(request.path())].push_back(body ? *body : "{}");
    told_.notify_all();
    co_return http::Response();
  }

  http::ServerOptions options() const {
    http::ServerOptions out;
    if (secure()) out.secure = tls::secure_with(*tls::ServerContext::make(leaf_.identity()));
    return out;
  }

  std::map<std::string, std::deque<std::string>> bodies_;
  Notifier told_{io_.get_executor()};
  tls::testing::Certificate root_{{.common_name = "root", .alt_names = "", .authority = true}};
  tls::testing::Certificate leaf_{{.common_name = "operator", .alt_names = "IP:127.0.0.1"}, &root_};
  std::optional<http::Server> operator_;
};

class SecureHostReportsTest : public HostReportsTest {
  bool secure() const override { return true; }
};

TEST_F(HostReportsTest, MetricsOfEverySandboxReachTheCollector) {
  server_.set("www.example.com", RecordType::A, {a("www.example.com", "93.184.216.34")});
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "www.example.com");
  grant();
  (void)answer(socket);
  ask(socket, "evil.org");
  (void)answer(socket);

  const auto one = [](const char* key) {
    return [key](const json::array& found) { return !found.empty() && found.at(0).at(key) == "1"; };
  };
  const auto denied = points("egress.policy.denied_total", one("asInt"));
  EXPECT_EQ(denied.at(0).at_pointer("/attributes/0/key"), "sandbox_id");
  EXPECT_EQ(denied.at(0).at_pointer("/attributes/0/value/stringValue"), "a");
  points("egress.dns.query.duration", one("count"));
  points("egress.nftables.updates.count", one("asInt"));
  points("egress.nftables.rules.count", one("asInt"));
  points("egress.system.memory.usage_bytes", [](const json::array& found) { return found.at(0).at("asInt") != "0"; });
  points("egress.system.cpu.utilization",
         [](const json::array& found) { return found.at(0).at("asDouble").to_number<double>() <= 1; });
}

TEST_F(HostReportsTest, DeniedNamesReachTheWebhookWithTheirSandbox) {
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "Evil.org");
  (void)answer(socket);
  json::object body = told("/denied").as_object();
  EXPECT_TRUE(body["timestamp"].as_string().ends_with("Z"));
  body.erase("timestamp");
  EXPECT_EQ(body, (json::object{{"hostname", "evil.org"}, {"source", "opensandbox-egress"}, {"sandboxId", "a"}}));
}

TEST_F(SecureHostReportsTest, AWebhookAndACollectorBehindTlsAreToldToo) {
  const UniqueFd socket = socket_of("127.0.0.2");
  ask(socket, "evil.org");
  (void)answer(socket);
  EXPECT_EQ(told("/denied").at("hostname"), "evil.org");
  points("egress.policy.denied_total", [](const json::array& found) { return !found.empty(); });
}

}  // namespace
}  // namespace osb::egress::testing
