#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "async/timer.h"
#include "base/log_rate.h"
#include "http/client.h"
#include "http/url.h"

namespace osb::egress {

// Tells a URL about denied names, one after the other. A full queue drops further ones; one sandbox fills at most its
// share.
class DenyWebhook {
 public:
  struct Options {
    std::size_t queue = 256;
    std::size_t share = 256;
    std::chrono::milliseconds timeout{5000};
    // Pauses before the repetitions, after an error of the network or a status of 500 and more.
    std::vector<std::chrono::milliseconds> pauses = {std::chrono::seconds(1), std::chrono::seconds(2),
                                                     std::chrono::seconds(4)};
  };

  DenyWebhook(net::any_io_executor executor, std::unique_ptr<http::Connector> connector, http::Url url, Options options)
      : client_(std::move(connector)),
        url_(std::move(url)),
        options_(std::move(options)),
        changed_(std::move(executor)) {}

  void denied(const std::string& sandbox_id, std::string_view name);
  // Until cancelled.
  net::awaitable<void> run();

 private:
  net::awaitable<void> send(std::string body);
  // True: there is nothing to repeat.
  net::awaitable<bool> try_once(const std::string& body);
  bool full(const std::string& sandbox_id) const;

  http::Client client_;
  http::Url url_;
  Options options_;
  struct Denied {
    std::string sandbox_id, body;
  };
  std::deque<Denied> queue_;
  Notifier changed_;
  LogRate dropped_;
};

}  // namespace osb::egress
