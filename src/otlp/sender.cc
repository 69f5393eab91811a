#include "otlp/sender.h"

#include "async/timer.h"
#include "base/log.h"

namespace osb::otlp {

Sender::Sender(Collector collector, std::unique_ptr<http::Connector> connector)
    : collector_(std::move(collector)),
      client_(std::move(connector), {.idle_per_origin = 0, .idle = {}}) {}  // one request a minute

net::awaitable<Result<void>> Sender::send(std::string document, std::chrono::milliseconds limit) {
  http::ClientRequest request;
  request.method = "POST";
  request.target = collector_.url.target;
  request.headers = collector_.headers;
  request.headers.set("Content-Type", "application/json");
  request.body = std::move(document);
  request.timeouts = {.connect = limit, .head = limit, .body_stall = limit};
  auto response = co_await client_.send(collector_.origin(), std::move(request));
  if (!response) co_return Failure(response.error());
  auto body = co_await response->body->read_all(64 << 10);
  if (!body) co_return Failure(body.error());
  if (response->status / 100 != 2) {
    co_return fail(Code::Unavailable, "the collector answered " + std::to_string(response->status));
  }
  co_return Result<void>();
}

net::awaitable<void> Sender::run(std::function<std::string()> document, std::function<void(bool)> settle) {
  bool away = false;
  while (co_await sleep_for(collector_.interval)) {
    const auto sent = co_await send(document(), collector_.timeout);
    if (settle) settle(sent.has_value());
    if (!sent && !away) {
      log_warn("metrics not exported", {{"to", collector_.origin()}, {"error", sent.error().message}});
    }
    if (sent && away) log_info("metrics exported again", {{"to", collector_.origin()}});
    away = !sent;
  }
}

}  // namespace osb::otlp
