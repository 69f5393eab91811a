#include "mcp/client_session.h"

#include <boost/json/parse.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "http/http_fixture.h"

namespace osb::mcp {
namespace {

class Recorder final : public Outlet {
 public:
  void send(std::string message) override { sent.push_back(json::parse(message)); }
  void answer(std::string message) override { answers.push_back(json::parse(message)); }
  void drop() override { ++drops; }
  std::vector<json::value> sent, answers;
  int drops = 0;
};

// A session whose OpenSandbox server takes requests and answers none until it is told to.
class SessionTest : public http::testing::HttpFixture {
 protected:
  SessionTest() {
    serve([this](http::Request& request) -> net::awaitable<http::Response> {
      ++asked;
      last = request.method + " " + std::string(request.path());
      co_await open_.wait();
      co_return http::json_response(404, R"({"code":"SANDBOX::NOT_FOUND","message":"no such sandbox"})");
    });
    opensandbox::ConnectionConfig config;
    config.domain = address.to_string();
    config.api_key = "key";
    auto client = sdk::Client::open(io.get_executor(), config);
    EXPECT_TRUE(client);
    session =
        std::make_shared<ClientSession>(io.get_executor(), *client, tools, SessionOptions{.max_calls = 2}, outlet);
  }
  ~SessionTest() override { osb::testing::await(io, session->close()); }

  void receive(std::string_view text) { session->receive(decode_payload(text), outlet); }
  void initialize(std::string_view version = kLatestVersion) {
    receive(fmt::format(R"({{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{}"}}}})",
                        version));
  }
  void get_info(int id) {
    receive(fmt::format(R"({{"jsonrpc":"2.0","id":{},"method":"tools/call",)"
                        R"("params":{{"name":"sandbox_get_info","arguments":{{"sandbox_id":"x"}}}}}})",
                        id));
  }
  void cancel(int id) {
    receive(fmt::format(R"({{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}}}}})", id));
  }
  template <typename Condition>
  void run_until(Condition condition) {
    io.restart();
    while (!condition()) io.run_one();
  }
  int error_of_last() { return outlet->answers.back().at("error").at("code").to_number<int>(); }

  const std::vector<Tool> tools = all_tools();
  const std::shared_ptr<Recorder> outlet = std::make_shared<Recorder>();
  std::shared_ptr<ClientSession> session;
  int asked = 0;
  std::string last;
  Event open_{io.get_executor()};
};

TEST_F(SessionTest, SpeaksTheVersionOfTheClientOrItsLatest) {
  initialize("2025-03-26");
  EXPECT_EQ(session->version(), "2025-03-26");
  initialize("2025-06-18");
  EXPECT_EQ(error_of_last(), rpc::kInvalidRequest) << "once is enough";
  EXPECT_TRUE(is_supported_version("2024-11-05"));
  EXPECT_FALSE(is_supported_version("2026-07-28"));
}

TEST_F(SessionTest, ACallDoesNotKeepOthersWaiting) {
  initialize();
  get_info(1);
  run_until([this] { return asked == 1; });
  EXPECT_EQ(last, "GET /v1/sandboxes/x");
  receive(R"({"jsonrpc":"2.0","id":2,"method":"ping"})");
  EXPECT_EQ(outlet->answers.back().at("id"), 2);
  open_.set();
  run_until([this] { return outlet->answers.size() == 3; });
  const json::value& result = outlet->answers.back().at("result");
  EXPECT_TRUE(result.at("isError").as_bool());
  EXPECT_EQ(result.at("_meta").at("opensandbox/error").at("code"), "SANDBOX::NOT_FOUND");
}

TEST_F(SessionTest, ACancelledCallIsDroppedAndItsIdIsFree) {
  initialize();
  get_info(1);
  run_until([this] { return asked == 1; });
  cancel(7);  // unknown: nothing happens
  EXPECT_EQ(outlet->drops, 0);
  cancel(1);
  run_until([this] { return outlet->drops == 1; });
  EXPECT_EQ(outlet->answers.size(), 1U);
  get_info(1);
  run_until([this] { return asked == 2; });
  open_.set();
  run_until([this] { return outlet->answers.size() == 2; });
}

TEST_F(SessionTest, CallsAtTheSameTimeAreLimited) {
  initialize();
  get_info(1);
  get_info(2);
  get_info(3);
  EXPECT_EQ(error_of_last(), rpc::kBusy);
  cancel(1);
  run_until([this] { return outlet->drops == 1; });
  get_info(2);
  EXPECT_EQ(error_of_last(), rpc::kInvalidRequest) << "it still runs";
  get_info(3);
  run_until([this] { return asked == 2; });
}

TEST_F(SessionTest, ClosingEndsWhatRuns) {
  initialize();
  get_info(1);
  get_info(2);
  run_until([this] { return asked == 2; });
  osb::testing::await(io, session->close());
  EXPECT_EQ(outlet->drops, 2);
  get_info(3);
  EXPECT_EQ(error_of_last(), rpc::kInvalidRequest);
}

TEST_F(SessionTest, ABatchThatIsNotTakenIsAnsweredOnce) {
  initialize();
  receive(R"([{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}])");
  EXPECT_EQ(error_of_last(), rpc::kInvalidRequest);
  EXPECT_EQ(outlet->answers.size(), 2U);
  EXPECT_EQ(outlet->drops, 1);
}

}  // namespace
}  // namespace osb::mcp
