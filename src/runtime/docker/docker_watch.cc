#include "runtime/docker/docker_watch.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "async/race.h"
#include "base/backoff.h"
#include "base/log.h"
#include "http/url.h"
#include "runtime/docker/docker_volumes.h"
#include "runtime/docker/engine_json.h"
#include "runtime/labels.h"

namespace osb::runtime {

using namespace race;
namespace json = boost::json;

namespace {

constexpr std::chrono::milliseconds kFirstRetry(50), kLastRetry(2000);
// The first report waits so long for the answers of execd in containers that were found.
constexpr std::chrono::milliseconds kConfirmWait(500);
// A container that was made and not started belongs to a create, maybe of another server, unless it is this old.
constexpr std::chrono::minutes kAbandoned(10);

std::string filters(json::object value) { return http::percent_encode(json::serialize(value)); }

}  // namespace

net::awaitable<void> DockerWatch::run(Observer& observer) {
  parts_.containers.set_observer(&observer);
  const struct Gone {
    Containers& containers;
    ~Gone() { containers.set_observer(nullptr); }
  } gone{parts_.containers};
  Backoff pause(kFirstRetry, kLastRetry);
  for (;;) {
    const auto begin = context_.clock.steady_now();
    const Error why = co_await follow_events(observer);
    if ((co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none) co_return;
    observer.on_lost(why);
    context_.engine.forget_connections();
    parts_.images.forget_all();
    if (context_.clock.steady_now() - begin > kLastRetry) pause.reset();
    const auto woken = co_await (look_again_.wait() || sleep_for(pause.next()));
    if (!std::visit([](bool slept) { return slept; }, woken)) co_return;
  }
}

// Until the stream is lost. It begins before the list is taken, so that nothing falls between the two; a change that is
// in both is told twice, which is harmless.
net::awaitable<Error> DockerWatch::follow_events(Observer& observer) {
  if (auto version = co_await context_.engine.negotiate(); !version) co_return version.error();
  EngineClient::Call call{.target = "/events?filters=" +
                                    filters({{"type", json::array{"container", "image", "volume", "network"}}})};
  if (!since_.empty()) call.target += "&since=" + since_;
  auto stream = co_await context_.engine.stream(std::move(call));
  if (!stream) co_return stream.error();
  co_await parts_.network.look();
  co_await parts_.creates.undo_leftovers();
  co_await parts_.snapshots.thaw_all();
  if (auto taken = co_await take_stock(); !taken) co_return taken.error();
  observer.on_all(parts_.containers.all());
  parts_.snapshots.note_reconnected();
  // So that the first create need not wait for it.
  if (!context_.options.execd_image.starts_with('/')) context_.tasks.spawn("fill execd's volume", fill_execd_volume());
  for (;;) {
    auto event = co_await (*stream)->next();
    if (!event) co_return event.error();
    if (event->is_null()) co_return Error(Code::Unavailable, "the engine ended its stream of events");
    on_event(read_event(*event));
  }
}

net::awaitable<void> DockerWatch::fill_execd_volume() {
  Notifier never(context_.executor);
  (void)co_await parts_.execd_volume.mounts(std::nullopt, {never, [] { return false; }, [](const std::string&) {}});
}

net::awaitable<void> DockerWatch::remove_network(std::string id, bool has_sidecar) {
  if (has_sidecar) co_await parts_.sidecars.remove(id);
  co_await parts_.network.release(id);
}

net::awaitable<Result<std::vector<std::string>>> DockerWatch::list_sandboxes() {
  const auto answer = co_await context_.engine.call(
      {.target = "/containers/json?all=1&filters=" + filters({{"label", json::array{label::kId}}})});
  if (!answer) co_return Failure(answer.error());
  std::vector<std::string> ids;
  if (!answer->is_array()) co_return ids;
  for (const json::value& each : answer->get_array()) {
    std::string id = engine::text(each, {"Labels", label::kId});
    const auto names = engine::string_list(each, {"Names"});
    // The label alone may come from an image.
    if (id.empty() || names.empty() || names.front() != "/" + container_name(id)) continue;
    ids.push_back(std::move(id));
  }
  co_return ids;
}

net::awaitable<Result<void>> DockerWatch::take_stock() {
  const auto ids = co_await list_sandboxes();
  if (!ids) co_return Failure(ids.error());
  parts_.containers.keep_only(*ids);
  const std::vector<std::string> unguarded = co_await parts_.sidecars.sweep(*ids);
  co_await parts_.network.sweep(*ids);
  for (const std::string& id : *ids) {
    auto container = co_await parts_.containers.look_up(id);
    if (!container && container.error().code == Code::NotFound) continue;
    if (!container) co_return Failure(container.error());
    if (container->status == "created") {
      const bool abandoned = container->created_at && context_.clock.now() - *container->created_at > kAbandoned;
      if (abandoned && !parts_.creates.is_under_way(id)) {
        log_warn("removing a container that was never started", {{"id", id}});
        co_await parts_.creates.remove_abandoned(id, container->managed_volumes());
      }
      continue;
    }
    const bool ended = container->status == "exited";
    parts_.containers.note(std::move(*container));
    parts_.creates.note_end(id, ended);
  }
  for (const std::string& id : unguarded) revive_sidecar(id);
  co_await parts_.containers.ask_all(kConfirmWait);
  co_return Result<void>();
}

void DockerWatch::on_event(const EngineEvent& event) {
  using Action = EngineEvent::Action;
  if (!event.time.empty()) since_ = event.time;
  if (event.type == "image") {
    parts_.images.forget_all();
  } else if (event.type == "volume") {
    // Sidecars have volumes that go with them.
    if (event.action == Action::Gone && parts_.execd_volume.may_be(event.object)) parts_.execd_volume.forget();
  } else if (event.type == "network") {
    // A network of sandboxes that was removed is made anew.
    if (event.action == Action::Gone || (parts_.network.is_user_defined() && event.action == Action::Created)) {
      context_.tasks.spawn("check network", parts_.network.look());
    }
  } else if (!event.sandbox.empty()) {
    on_container_event(event);
  } else if (!event.sidecar.empty() && event.action == Action::Ended) {
    revive_sidecar(event.sidecar);
  }
}

void DockerWatch::revive_sidecar(const std::string& id) {
  const auto wanted = [this, id] {
    const Container* known = parts_.containers.find(id);
    return known != nullptr && known->status == "running" && !parts_.creates.is_under_way(id);
  };
  if (wanted()) context_.tasks.spawn("start the egress sidecar", parts_.sidecars.revive(id, wanted));
}

void DockerWatch::on_container_event(const EngineEvent& event) {
  using Action = EngineEvent::Action;
  const std::string& id = event.sandbox;
  if (parts_.creates.is_under_way(id)) {
    if (event.action == Action::Gone || event.action == Action::Ended) parts_.creates.note_end(id);
  } else if (event.action == Action::Gone) {
    const Container* known = parts_.containers.find(id);
    if (known == nullptr || known->id != event.object) return;
    // By hand, or our own removal, which does the same.
    if (auto volumes = known->managed_volumes(); !volumes.empty()) {
      context_.tasks.spawn("remove volumes", remove_managed_volumes(context_.engine, std::move(volumes)));
    }
    context_.tasks.spawn("remove network", remove_network(id, !known->egress_token.empty()));
    parts_.containers.forget(id);
    parts_.containers.announce_removal(id);
  } else if (event.action == Action::Ended || event.action == Action::Changed) {
    parts_.containers.refresh(id);
  }
}

}  // namespace osb::runtime
