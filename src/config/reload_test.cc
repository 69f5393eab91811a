#include "config/reload.h"

#include <gmock/gmock.h>

namespace osb::config {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ServerConfig parse(std::string_view toml) {
  auto config = parse_server_config(toml, "test.toml", {});
  EXPECT_TRUE(config) << config.error().message;
  return std::move(*config);
}

TEST(Reload, NothingDiffersFromItself) {
  const auto changes = compare(parse("[server]\nport = 1\n"), parse("[server]\nport = 1\n"));
  EXPECT_THAT(changes.live, IsEmpty());
  EXPECT_THAT(changes.restart, IsEmpty());
}

TEST(Reload, TellsWhatCanBeTakenOverFromWhatCannot) {
  const auto changes = compare(parse(""), parse(R"(
[server]
port = 9000
api_key = "new"
limit_concurrency = 7
[log]
level = "debug"
[admission]
max_sandboxes = 3
[storage]
allowed_host_paths = ["/data"]
[store]
path = "/elsewhere.db"
[native]
socket = "/other.sock"
[renew_intent]
enabled = true
[renew_intent.redis]
queue_key = "q"
)"));
  EXPECT_THAT(changes.live, ElementsAre("[server] api_key", "[server] limit_concurrency", "[log]", "[admission]",
                                        "[storage] allowed_host_paths", "[renew_intent] enabled"));
  EXPECT_THAT(changes.restart, ElementsAre("[server] port", "[native]", "[store]", "[renew_intent.redis]"));
}

}  // namespace
}  // namespace osb::config
