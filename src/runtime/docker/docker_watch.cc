// What the engine says happens, and what the observer hears of it.

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "base/log.h"
#include "http/url.h"
#include "runtime/docker/docker_backend.h"
#include "runtime/docker/engine_json.h"
#include "runtime/labels.h"

namespace osb::runtime {

using namespace net::experimental::awaitable_operators;
namespace json = boost::json;

namespace {

constexpr std::chrono::milliseconds kFirstRetry(50), kLastRetry(2000);
// For execd of a container that was found: how long the first report waits for answers, and how long one is asked.
constexpr std::chrono::milliseconds kConfirmWait(500);
constexpr std::chrono::seconds kConfirmLimit(60);
constexpr std::chrono::milliseconds kFirstAsk(1), kLastAsk(250);
// A container that was made and never started belongs to a create that somebody is busy with, or was.
constexpr std::chrono::minutes kAbandoned(10);

std::string filters(json::object value) { return http::percent_encode(json::serialize(value)); }

}  // namespace

net::awaitable<void> DockerBackend::watch(Observer& observer) {
  observer_ = &observer;
  const struct Gone {
    DockerBackend& self;
    ~Gone() { self.observer_ = nullptr; }
  } gone{*this};
  auto pause = kFirstRetry;
  for (;;) {
    const auto begin = std::chrono::steady_clock::now();
    const Error why = co_await follow_events();
    if ((co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none) co_return;
    observer.on_lost(why);
    engine_->forget_connections();
    images_.forget_all();
    if (std::chrono::steady_clock::now() - begin > kLastRetry) pause = kFirstRetry;
    const auto woken = co_await (look_again_.wait() || sleep_for(pause));
    if (!std::visit([](bool slept) { return slept; }, woken)) co_return;
    pause = std::min(pause * 2, kLastRetry);
  }
}

// Until the stream is lost. It begins before the list is taken, so that nothing falls between the two; what both tell
// is told twice, and harmless.
net::awaitable<Error> DockerBackend::follow_events() {
  if (auto version = co_await engine_->negotiate(); !version) co_return version.error();
  EngineClient::Call call{.target = "/events?filters=" +
                                    filters({{"type", json::array{"container", "image", "volume", "network"}}})};
  if (!since_.empty()) call.target += "&since=" + since_;
  auto stream = co_await engine_->stream(std::move(call));
  if (!stream) co_return stream.error();
  co_await check_network();
  // Half-made containers of creates that failed because the engine was away.
  while (!leftovers_.empty()) {
    auto leftover = leftovers_.extract(leftovers_.begin());
    co_await undo(leftover.key(), std::move(leftover.mapped()));
  }
  // An engine that ends in the middle of a snapshot forgets to let its container go on.
  while (!frozen_.empty()) {
    const auto id = frozen_.extract(frozen_.begin());
    co_await unpause(id.value());
  }
  if (auto taken = co_await take_stock(); !taken) co_return taken.error();
  std::vector<Instance> all;
  for (const auto& [id, known] : known_) {
    if (!creating_.contains(id) && known.seen()) all.push_back(instance_of(known));
  }
  observer_->on_all(std::move(all));
  reconnected_.notify_all();
  if (!options_.execd_image.starts_with('/')) {
    // So that the first create need not wait for it.
    tasks_.spawn("stage execd", [](DockerBackend& self) -> net::awaitable<void> {
      Notifier never(self.executor_);
      (void)co_await self.stage_.mounts(std::nullopt, {never, [] { return false; }, [](const std::string&) {}});
    }(*this));
  }
  for (;;) {
    auto event = co_await (*stream)->next();
    if (!event) co_return event.error();
    if (event->is_null()) co_return Error(Code::Unavailable, "the engine ended its stream of events");
    on_event(read_event(*event));
  }
}

// Everything that is there becomes known_, with the state it has now.
net::awaitable<Result<void>> DockerBackend::take_stock() {
  const auto answer = co_await engine_->call(
      {.target = "/containers/json?all=1&filters=" + filters({{"label", json::array{label::kId}}})});
  if (!answer) co_return Failure(answer.error());
  std::vector<std::string> ids;
  if (answer->is_array()) {
    for (const json::value& each : answer->get_array()) {
      const std::string id = engine::text(each, {"Labels", label::kId});
      const auto names = engine::string_list(each, {"Names"});
      // The label alone may come from an image.
      if (id.empty() || names.empty() || names.front() != "/" + container_name(id)) continue;
      ids.push_back(id);
    }
  }
  std::erase_if(known_, [&](const auto& entry) {
    return !creating_.contains(entry.first) && std::ranges::find(ids, entry.first) == ids.end();
  });
  for (const std::string& id : ids) {
    auto container = co_await inspect_container(id);
    if (!container && container.error().code == Code::NotFound) continue;
    if (!container) co_return Failure(container.error());
    if (container->status == "created") {
      const bool abandoned =
          container->created_at && std::chrono::system_clock::now() - *container->created_at > kAbandoned;
      if (abandoned && !creating_.contains(id)) {
        log_warn("removing a container that was never started", {{"id", id}});
        Made made;
        made.container = true;
        made.volumes.created = container->managed_volumes();
        co_await undo(id, std::move(made));
      }
      continue;
    }
    note(std::move(*container));
    if (const auto creation = creating_.find(id); creation != creating_.end()) {
      creation->second->died = known_[id].container.status == "exited";
      creation->second->changed.notify_all();
    }
  }
  // Give those that run the time to say so.
  const auto unanswered = [this] {
    return std::ranges::any_of(known_, [](const auto& entry) { return entry.second.asking; });
  };
  for (auto& [id, known] : known_) {
    if (known.answered || known.asking || creating_.contains(id) || known.container.status != "running") continue;
    known.asking = true;
    tasks_.spawn("ask execd", confirm(id));
  }
  if (unanswered()) {
    (void)co_await (answered_.wait_until([&] { return !unanswered(); }) || sleep_for(kConfirmWait));
  }
  co_return Result<void>();
}

// Whether execd of a container that was found answers. One whose execd never does is left as it is: it was Running
// once, or its create ends by itself.
net::awaitable<void> DockerBackend::confirm(std::string id) {
  const auto deadline = std::chrono::steady_clock::now() + kConfirmLimit;
  auto pause = kFirstAsk;
  bool answered = false;
  while (!answered && std::chrono::steady_clock::now() < deadline) {
    const auto known = known_.find(id);
    if (known == known_.end() || known->second.container.status != "running") break;
    const auto asked = co_await ask_execd(instance_of(known->second));
    answered = asked && *asked;
    if (!answered && !co_await sleep_for(pause)) co_return;
    pause = std::min(pause * 2, kLastAsk);
  }
  const auto known = known_.find(id);
  if (known == known_.end()) {
    answered_.notify_all();
    co_return;
  }
  known->second.asking = false;
  known->second.answered = answered;
  answered_.notify_all();
  if (observer_ != nullptr && !creating_.contains(id)) observer_->on_change(instance_of(known->second));
}

void DockerBackend::on_event(const EngineEvent& event) {
  using Action = EngineEvent::Action;
  if (!event.time.empty()) since_ = event.time;
  if (event.type == "image") {
    images_.forget_all();
  } else if (event.type == "volume") {
    if (event.action == Action::Gone) stage_.forget();
  } else if (event.type == "network") {
    if (own_network() && (event.action == Action::Created || event.action == Action::Gone)) {
      tasks_.spawn("check network", check_network());
    }
  } else if (!event.sandbox.empty()) {
    on_container_event(event);
  }
}

void DockerBackend::on_container_event(const EngineEvent& event) {
  using Action = EngineEvent::Action;
  const std::string& id = event.sandbox;
  if (const auto creation = creating_.find(id); creation != creating_.end()) {
    if (event.action != Action::Gone && event.action != Action::Ended) return;
    creation->second->died = true;
    creation->second->changed.notify_all();
  } else if (event.action == Action::Gone) {
    const auto known = known_.find(id);
    if (known == known_.end() || known->second.container.id != event.object) return;
    // By hand, or our own removal, which does the same.
    if (auto volumes = known->second.container.managed_volumes(); !volumes.empty()) {
      tasks_.spawn("remove volumes", remove_managed_volumes(*engine_, std::move(volumes)));
    }
    forget(id);
    if (observer_ != nullptr) observer_->on_removed(id);
  } else if (event.action == Action::Ended || event.action == Action::Changed) {
    refresh(id);
  }
}

void DockerBackend::refresh(const std::string& id) {
  Known& known = known_[id];
  known.stale = true;
  if (std::exchange(known.refreshing, true)) return;
  tasks_.spawn("look at a container", run_refresh(id));
}

// An event says that something changed, the container itself says how it is. One look at a time, so that an old answer
// never comes after a newer one.
net::awaitable<void> DockerBackend::run_refresh(std::string id) {
  auto pause = kFirstRetry;
  for (;;) {
    auto known = known_.find(id);
    if (known == known_.end()) co_return;
    if (!known->second.stale) {
      known->second.refreshing = false;
      co_return;
    }
    known->second.stale = false;
    auto container = co_await inspect_container(id);
    known = known_.find(id);
    if (known == known_.end()) co_return;
    if (!container && container.error().code != Code::NotFound) {
      // The event is used up, and there may never be another one.
      known->second.stale = true;
      log_warn("a container cannot be looked at", {{"id", id}, {"error", container.error().message}});
      if (!co_await sleep_for(pause)) co_return;
      pause = std::min(pause * 2, kLastRetry);
      continue;
    }
    pause = kFirstRetry;
    if (!container) {
      if (known->second.container.id.empty()) known_.erase(known);
      continue;
    }
    const bool fresh = known->second.container.id != container->id;
    note(std::move(*container));
    known->second.refreshing = true;
    // The engine freezes it for a moment to copy it; that is no pause.
    if (known->second.snapshots > 0 && known->second.container.status == "paused") continue;
    if (fresh && !known->second.answered && !std::exchange(known->second.asking, true)) {
      tasks_.spawn("ask execd", confirm(id));
    }
    if (observer_ != nullptr && !creating_.contains(id)) observer_->on_change(instance_of(known->second));
  }
}

net::awaitable<void> DockerBackend::check_network() {
  if (!own_network()) co_return;
  const std::string& name = options_.docker.network_mode;
  const auto found = co_await engine_->call({.target = "/networks/" + http::percent_encode(name)});
  network_missing_.clear();
  if (!found && found.error().code == Code::NotFound) {
    network_missing_ = "[docker] network_mode: the engine has no network \"" + name + "\"";
  }
}

}  // namespace osb::runtime
