#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/net.h"
#include "async/task_group.h"
#include "base/error.h"
#include "base/time.h"
#include "http/client.h"

namespace osb::server {

// redis://[user[:password]@]host[:port][/database], rediss:// for TLS, unix:///path[?db=N].
struct RedisAddress {
  std::string origin;  // for a connector
  std::string user, password;
  int database = 0;
};
// Errors never repeat the text: it may hold a password.
Result<RedisAddress> parse_redis_dsn(std::string_view dsn);

// Which sandbox somebody has used, as the gateway says it: {"sandbox_id","observed_at"}. Nothing for what is broken,
// or older than five minutes.
std::optional<std::string> read_renew_intent(std::string_view text, Timestamp now);

// Takes intents off a Redis list, where the gateway puts them because the access did not pass this server.
class RenewIntents {
 public:
  struct Options {
    RedisAddress redis;
    std::string queue_key;
    int consumers = 8;
  };
  // `renew` is called on the loop with a sandbox's id. `connector` knows names and TLS.
  RenewIntents(net::any_io_executor executor, std::shared_ptr<http::Connector> connector, Options options,
               std::function<void(std::string)> renew);

  // A Redis that cannot be reached is asked again every second; it keeps nothing else from working.
  void start();
  net::awaitable<void> close();

 private:
  net::awaitable<void> consume(bool says);
  net::awaitable<Result<void>> serve(bool says);

  std::shared_ptr<http::Connector> connector_;
  Options options_;
  std::function<void(std::string)> renew_;
  TaskGroup tasks_;
};

}  // namespace osb::server
