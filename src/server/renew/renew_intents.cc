#include "server/renew/renew_intents.h"

#include <charconv>

#include "api/json.h"
#include "async/timer.h"
#include "base/log.h"
#include "base/time.h"
#include "http/url.h"
#include "server/renew/resp.h"

namespace osb::server {
namespace {

constexpr std::chrono::seconds kConnectLimit(10), kBackOff(1), kOldest(300);
// How long Redis holds an answer back, and how long we wait for it before the connection counts as dead.
constexpr int kHold = 5;
constexpr std::chrono::seconds kAnswerLimit(15);

class Connection {
 public:
  explicit Connection(std::unique_ptr<http::Transport> transport) : transport_(std::move(transport)) {}

  net::awaitable<Result<resp::Reply>> call(std::vector<std::string> words) {
    transport_->set_timeout(kAnswerLimit);
    const std::string command = resp::encode(words);
    if (auto sent = co_await transport_->write_all(command); !sent) co_return Failure(sent.error());
    for (;;) {
      auto reply = resp::take_reply(buffer_);
      if (!reply) co_return Failure(reply.error());
      if (*reply) {
        if ((*reply)->kind == resp::Reply::Kind::Error) {
          co_return fail(Code::Internal, words.front() + ": " + (*reply)->text);
        }
        co_return std::move(**reply);
      }
      char piece[4096];
      const auto got = co_await transport_->read_some(piece);
      if (!got) co_return Failure(got.error());
      if (*got == 0) co_return fail(Code::Unavailable, "Redis closed the connection");
      buffer_.append(piece, *got);
    }
  }

 private:
  std::unique_ptr<http::Transport> transport_;
  std::string buffer_;
};

}  // namespace

Result<RedisAddress> parse_redis_dsn(std::string_view dsn) {
  const auto refuse = [](std::string_view why) {
    return fail(Code::InvalidRequest, "[renew_intent.redis] dsn: " + std::string(why));
  };
  const auto number = [](std::string_view text, int most) -> std::optional<int> {
    int out = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size() || out < 0 || out > most) return std::nullopt;
    return out;
  };
  RedisAddress out;
  if (dsn.starts_with("unix://")) {
    std::string_view path = dsn.substr(7);
    if (const auto query = path.find('?'); query != std::string_view::npos) {
      const std::string_view text = path.substr(query + 1);
      const auto database = text.starts_with("db=") ? number(text.substr(3), 1'000'000) : std::nullopt;
      if (!database) return refuse("expected unix:///path?db=NUMBER");
      out.database = *database;
      path = path.substr(0, query);
    }
    if (!path.starts_with('/')) return refuse("expected unix:///path");
    out.origin = "unix:" + std::string(path);
    return out;
  }
  const bool secure = dsn.starts_with("rediss://");
  if (!secure && !dsn.starts_with("redis://")) return refuse("expected redis://, rediss:// or unix://");
  dsn.remove_prefix(secure ? 9 : 8);
  std::string_view path;
  if (const auto slash = dsn.find('/'); slash != std::string_view::npos) {
    path = dsn.substr(slash + 1);
    dsn = dsn.substr(0, slash);
  }
  if (!path.empty()) {
    const auto database = number(path, 1'000'000);
    if (!database) return refuse("the part behind the host is the number of a database");
    out.database = *database;
  }
  if (const auto at = dsn.rfind('@'); at != std::string_view::npos) {
    const std::string_view login = dsn.substr(0, at);
    dsn.remove_prefix(at + 1);
    const auto colon = login.find(':');
    const auto user = http::percent_decode(login.substr(0, colon));
    const auto password =
        http::percent_decode(colon == std::string_view::npos ? std::string_view() : login.substr(colon + 1));
    if (!user || !password) return refuse("user or password has a broken percent escape");
    out.user = *user;
    out.password = *password;
  }
  const auto colon = dsn.rfind(':');
  const bool has_port = colon != std::string_view::npos && dsn.find(']', colon) == std::string_view::npos;
  const std::string_view host = has_port ? dsn.substr(0, colon) : dsn;
  const auto port = has_port ? number(dsn.substr(colon + 1), 65535) : std::optional(6379);
  if (host.empty() || !port || *port == 0) return refuse("expected host or host:port");
  out.origin = (secure ? "https://" : "http://") + std::string(host) + ":" + std::to_string(*port);
  return out;
}

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
  auto transport = co_await connector_->connect(options_.redis.origin, kConnectLimit);
  if (!transport) co_return Failure(transport.error());
  Connection connection(std::move(*transport));
  if (!options_.redis.password.empty()) {
    std::vector<std::string> login = {"AUTH"};
    if (!options_.redis.user.empty()) login.push_back(options_.redis.user);
    login.push_back(options_.redis.password);
    if (auto done = co_await connection.call(std::move(login)); !done) co_return Failure(done.error());
  }
  if (options_.redis.database != 0) {
    std::vector<std::string> select = {"SELECT", std::to_string(options_.redis.database)};
    if (auto done = co_await connection.call(std::move(select)); !done) co_return Failure(done.error());
  }
  if (says) log_info("Redis is connected", {{"queue", options_.queue_key}});
  for (;;) {
    std::vector<std::string> take = {"BRPOP", options_.queue_key, std::to_string(kHold)};
    auto reply = co_await connection.call(std::move(take));
    if (!reply) co_return Failure(reply.error());
    if (reply->kind != resp::Reply::Kind::List || reply->items.size() != 2) continue;  // nothing came
    const auto now = timestamp_now();
    if (auto id = read_renew_intent(reply->items[1].text, now)) {
      renew_(std::move(*id));
    } else {
      log_debug("renew intent dropped");
    }
  }
}

}  // namespace osb::server
