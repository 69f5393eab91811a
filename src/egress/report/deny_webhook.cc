#include "egress/report/deny_webhook.h"

#include <algorithm>

#include <boost/json/serialize.hpp>

#include "base/log.h"
#include "base/time.h"

namespace osb::egress {

bool DenyWebhook::full(const std::string& sandbox_id) const {
  if (queue_.size() >= options_.queue) return true;
  if (queue_.size() < options_.share) return false;
  return static_cast<std::size_t>(std::ranges::count(queue_, sandbox_id, &Denied::sandbox_id)) >= options_.share;
}

void DenyWebhook::denied(const std::string& sandbox_id, std::string_view name) {
  if (full(sandbox_id)) {
    if (const auto before = dropped_.next())
      log_warn("webhook is too slow; denied names are left out", {{"before", *before}});
    return;
  }
  const auto now = std::chrono::floor<std::chrono::seconds>(timestamp_now());
  queue_.push_back({sandbox_id, boost::json::serialize(boost::json::object{{"hostname", name},
                                                                           {"timestamp", format_timestamp(now)},
                                                                           {"source", "opensandbox-egress"},
                                                                           {"sandboxId", sandbox_id}})});
  changed_.notify_all();
}

net::awaitable<void> DenyWebhook::run() {
  while (co_await changed_.wait_until([this] { return !queue_.empty(); })) {
    std::string body = std::move(queue_.front().body);
    queue_.pop_front();
    co_await send(std::move(body));
  }
}

net::awaitable<void> DenyWebhook::send(std::string body) {
  if (co_await try_once(body)) co_return;
  for (const auto pause : options_.pauses) {
    if (!co_await sleep_for(pause)) co_return;
    if (co_await try_once(body)) co_return;
  }
  log_warn("webhook did not take a denied name");
}

net::awaitable<bool> DenyWebhook::try_once(const std::string& body) {
  http::ClientRequest request;
  request.method = "POST";
  request.target = url_.target;
  request.headers.set("Content-Type", "application/json");
  request.body = body;
  request.timeouts.connect = request.timeouts.head = options_.timeout;
  const auto response =
      co_await client_.send(url_.scheme + "://" + url_.host + ":" + std::to_string(url_.port), std::move(request));
  co_return response && response->status < 500;
}

}  // namespace osb::egress
