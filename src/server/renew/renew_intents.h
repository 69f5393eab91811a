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
#include "redis/address.h"

namespace osb::server {

// The sandbox of an access that the gateway reports: {"sandbox_id","observed_at"}. Nothing if the text is broken, or
// older than five minutes.
std::optional<std::string> read_renew_intent(std::string_view text, Timestamp now);

// Takes intents off a Redis list, where the gateway puts them because the access did not pass this server.
class RenewIntents {
 public:
  struct Options {
    redis::Address redis;
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
