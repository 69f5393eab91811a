#include "runtime/docker/docker_snapshots.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "async/race.h"
#include "http/url.h"
#include "runtime/labels.h"

namespace osb::runtime {

using namespace race;
namespace json = boost::json;
using Call = EngineClient::Call;

namespace {

// A commit that fails because the engine cannot be reached is made again, so often.
constexpr int kCommits = 3;
// How often an engine is asked what became of it, and how long it may be away.
constexpr std::chrono::milliseconds kPause(500);
constexpr std::chrono::minutes kAway(2);

std::string image_path(const std::string& snapshot, std::string_view rest = "") {
  return "/images/" + http::percent_encode(snapshot_image(snapshot), ":") + std::string(rest);
}

}  // namespace

net::awaitable<Result<void>> DockerSnapshots::create(SnapshotSpec spec) {
  const std::string &sandbox = spec.sandbox, &snapshot = spec.id;
  const auto container = co_await containers_.look_up(sandbox);
  if (!container) co_return Failure(container.error());
  if (auto ok = co_await context_.pool.run([&] { return context_.facts.reserve.check(); }); !ok) co_return ok;
  // The image inherits the container's labels and environment, and so would every container made of it. They cannot be
  // left out, only replaced by empty ones.
  json::object labels;
  for (const auto& [name, value] : container->labels) {
    if (name.starts_with(label::kPrefix) || has_metadata_name(name)) labels[name] = "";
  }
  Call call{.method = "POST", .patience = EngineClient::Patience::Unlimited};
  call.target = "/commit?container=" + container->id +
                "&repo=opensandbox-snapshots&tag=" + http::percent_encode(snapshot) + "&pause=1";
  call.body = json::object{{"Labels", std::move(labels)}, {"Env", json::array{std::string(kTokenVariable) + "="}}};
  const Containers::Frozen freezing(containers_, sandbox);
  for (int left = kCommits;; --left) {
    const auto made = co_await context_.engine.call(call);
    if (made) co_return Result<void>();
    if (made.error().code != Code::Unavailable) co_return Failure(made.error());
    // The engine ended over it, or only the connection: the image may be there, and the sandbox frozen.
    if (container->status != "paused") frozen_.insert(sandbox);
    const auto there = co_await look_again(snapshot);
    if (!there) co_return with_context(made.error().message, there.error());
    if (frozen_.erase(sandbox) > 0) co_await unpause(sandbox);
    if (*there) co_return Result<void>();
    if (left <= 1) co_return Failure(made.error());
  }
}

// After a commit whose answer was lost: as soon as the engine answers.
net::awaitable<Result<bool>> DockerSnapshots::look_again(std::string snapshot) {
  const auto deadline = context_.clock.steady_now() + kAway;
  for (;;) {
    const auto woken = co_await (reconnected_.wait() || sleep_for(kPause));
    const bool ending = !std::visit([](bool went_on) { return went_on; }, woken);
    if (ending) co_return fail(Code::Cancelled, "the server is ending");
    auto there = co_await exists(snapshot);
    if (there || there.error().code != Code::Unavailable) co_return there;
    if (context_.clock.steady_now() > deadline) co_return there;
  }
}

net::awaitable<void> DockerSnapshots::unpause(std::string id) {
  (void)co_await context_.engine.call({.method = "POST", .target = container_path(id, "/unpause")});
}

net::awaitable<void> DockerSnapshots::thaw_all() {
  while (!frozen_.empty()) {
    const auto id = frozen_.extract(frozen_.begin());
    co_await unpause(id.value());
  }
}

net::awaitable<Result<bool>> DockerSnapshots::exists(std::string snapshot) {
  const auto answer = co_await context_.engine.call({.target = image_path(snapshot, "/json")});
  if (answer) co_return true;
  if (answer.error().code == Code::NotFound) co_return false;
  co_return Failure(answer.error());
}

net::awaitable<Result<void>> DockerSnapshots::remove(std::string snapshot) {
  const auto answer = co_await context_.engine.call({.method = "DELETE", .target = image_path(snapshot)});
  if (!answer && answer.error().code != Code::NotFound) co_return Failure(answer.error());
  co_return Result<void>();
}

net::awaitable<Result<std::shared_ptr<http::BodySource>>> DockerSnapshots::export_archive(std::string snapshot) {
  Call call{.target = image_path(snapshot, "/get"), .patience = EngineClient::Patience::Unlimited};
  auto archive = co_await context_.engine.body(std::move(call));
  if (!archive) co_return Failure(archive.error());
  co_return std::shared_ptr<http::BodySource>(std::move(*archive));
}

}  // namespace osb::runtime
