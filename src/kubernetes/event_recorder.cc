#include "kubernetes/event_recorder.h"

#include "base/id.h"
#include "base/line_splitter.h"
#include "base/log.h"
#include "base/time.h"
#include "kubernetes/api_status.h"

namespace osb::kubernetes {
namespace {

constexpr std::size_t kMaxMessage = 1024;  // the server's limit
constexpr std::size_t kMaxName = 200;      // of the object in the event's name, which has 253 characters
constexpr int kAttempts = 5;

std::string second_of(std::chrono::system_clock::time_point at) {
  return format_timestamp(std::chrono::floor<std::chrono::seconds>(at));
}

json::object reference_to(const json::object& object) {
  json::object out;
  for (const std::string_view field : {"apiVersion", "kind"}) out[field] = text(object, {field});
  for (const std::string_view field : {"namespace", "name", "uid", "resourceVersion"}) {
    if (const auto value = text(object, {"metadata", field}); !value.empty()) out[field] = value;
  }
  return out;
}

}  // namespace

EventRecorder::EventRecorder(net::any_io_executor executor, Client& client, Options options)
    : client_(client),
      options_(std::move(options)),
      turns_(options_.per_second, options_.burst, client.clock()),
      changed_(std::move(executor)) {}

void EventRecorder::record(const json::object& about, Type type, std::string reason, std::string message) {
  if (queue_.size() >= options_.queue) {
    if (dropped_++ == 0) log_warn("kubernetes events dropped", {{"waiting", queue_.size()}});
    return;
  }
  message.resize(utf8_prefix(message, kMaxMessage));
  const Key key = key_of(about);
  Identity identity(key.to_string() + "/" + std::string(uid_of(about)), type, std::move(reason), std::move(message));
  // Objects without a namespace have their events in "default".
  queue_.push_back(
      {std::move(identity), reference_to(about), key.ns.empty() ? "default" : key.ns, client_.clock().now()});
  changed_.notify_all();
}

net::awaitable<Result<void>> EventRecorder::repeat(Sent& sent, const Pending& event) {
  const json::object change{{"count", sent.count + 1}, {"lastTimestamp", second_of(event.at)}};
  const auto patched = co_await client_.patch({resources::kEvents, sent.key}, PatchType::Merge, change);
  if (!patched) co_return Failure(patched.error());
  ++sent.count;
  recent_.splice(recent_.begin(), recent_, by_identity_.at(event.identity));
  co_return Result<void>();
}

void EventRecorder::remember(const Pending& event, Key key) {
  recent_.push_front({event.identity, std::move(key), 1});
  by_identity_[event.identity] = recent_.begin();
  if (recent_.size() <= options_.remember) return;
  by_identity_.erase(recent_.back().identity);
  recent_.pop_back();
}

net::awaitable<Result<void>> EventRecorder::send(const Pending& event) {
  if (const auto known = by_identity_.find(event.identity); known != by_identity_.end()) {
    auto repeated = co_await repeat(*known->second, event);
    if (repeated || !is_not_found(repeated.error())) co_return repeated;
    // The server keeps events for an hour.
    recent_.erase(known->second);
    by_identity_.erase(known);
  }
  const auto& [object, type, reason, message] = event.identity;
  const Key key{event.ns,
                std::string(text(event.about, {"name"})).substr(0, kMaxName) + "." + new_hex_id().substr(0, 16)};
  const std::string time = second_of(event.at);
  json::object source{{"component", options_.component}};
  if (!options_.host.empty()) source["host"] = options_.host;
  json::object body{{"metadata", {{"name", key.name}}},
                    {"involvedObject", event.about},
                    {"type", type == Type::Normal ? "Normal" : "Warning"},
                    {"reason", reason},
                    {"message", message},
                    {"source", std::move(source)},
                    {"count", 1},
                    {"firstTimestamp", time},
                    {"lastTimestamp", time}};
  const auto made = co_await client_.create(resources::kEvents, event.ns, std::move(body));
  if (!made) co_return Failure(made.error());
  remember(event, key);
  co_return Result<void>();
}

net::awaitable<void> EventRecorder::run() {
  while (co_await changed_.wait_until([this] { return !queue_.empty(); })) {
    sending_ = true;
    const Pending event = std::move(queue_.front());
    queue_.pop_front();
    if (const auto turn = turns_.take(); turn.count() > 0 && !co_await client_.sleep(turn)) co_return;
    JitteredBackoff pauses(std::chrono::milliseconds(500), std::chrono::seconds(10));
    for (int attempt = 1;; ++attempt) {
      const auto sent = co_await send(event);
      if (sent) break;
      if (sent.error().code != Code::Unavailable || attempt == kAttempts) {
        ++dropped_;
        log_warn("kubernetes event not sent",
                 {{"reason", std::get<2>(event.identity)}, {"error", sent.error().message}});
        break;
      }
      if (!co_await client_.sleep(pauses.next())) co_return;
    }
    sending_ = false;
    changed_.notify_all();
  }
}

net::awaitable<bool> EventRecorder::wait_idle() {
  return changed_.wait_until([this] { return queue_.empty() && !sending_; });
}

}  // namespace osb::kubernetes
