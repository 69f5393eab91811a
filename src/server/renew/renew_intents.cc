#include "server/renew/renew_intents.h"

#include "api/json.h"
#include "async/timer.h"
#include "base/log.h"
#include "base/time.h"
#include "redis/connection.h"

namespace osb::server {
namespace {

constexpr std::chrono::seconds kConnectLimit(10), kBackOff(1), kOldest(300);
// How long Redis holds an answer back, and how long we wait for it before the connection counts as dead.
constexpr int kHold = 5;
constexpr std::chrono::seconds kAnswerLimit(15);

}  // namespace

std::optional<std::string> read_renew_intent(std::string_view text, Timestamp now) {
  const auto value = api::parse_json(text);
  if (!value || !value->is_object()) return std::nullopt;
  api::ObjectReader reader(*value, {});
  std::string id = reader.required_string("sandbox_id");
  const auto observed = parse_timestamp(reader.required_string("observed_at"));
  if (!reader.finish() || !observed || now - *observed > kOldest) return std::nullopt;
  return id;
}

RenewIntents::RenewIntents(net::any_io_executor executor, std::shared_ptr<http::Connector> connector, Options options,
                           std::function<void(std::string)> renew)
    : connector_(std::move(connector)), options_(std::move(options)), renew_(std::move(renew)), tasks_(executor) {}

void RenewIntents::start() {
  // One of them speaks for all.
  for (int i = 0; i < options_.consumers; ++i) tasks_.spawn("renew intents", consume(i == 0));
}

net::awaitable<void> RenewIntents::close() { return tasks_.close(); }

net::awaitable<void> RenewIntents::consume(bool says) {
  for (;;) {
    const auto ended = co_await serve(says);
    if (says) log_warn("Redis is lost", {{"error", ended ? std::string_view("closed") : ended.error().message}});
    if (!co_await sleep_for(kBackOff)) co_return;
  }
}

net::awaitable<Result<void>> RenewIntents::serve(bool says) {
  auto connection = co_await redis::Connection::open(*connector_, options_.redis, kConnectLimit);
  if (!connection) co_return Failure(connection.error());
  if (says) log_info("Redis is connected", {{"queue", options_.queue_key}});
  for (;;) {
    std::vector<std::string> take = {"BRPOP", options_.queue_key, std::to_string(kHold)};
    auto reply = co_await connection->call(std::move(take), kAnswerLimit);
    if (!reply) co_return Failure(reply.error());
    if (reply->kind != redis::Reply::Kind::List || reply->items.size() != 2) continue;  // nothing came
    const auto now = timestamp_now();
    if (auto id = read_renew_intent(reply->items[1].text, now)) {
      renew_(std::move(*id));
    } else {
      log_debug("renew intent dropped");
    }
  }
}

}  // namespace osb::server
