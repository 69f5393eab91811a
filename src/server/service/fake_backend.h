#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "async/timer.h"
#include "runtime/backend.h"

namespace osb::server::testing {

// A backend in memory that does what a test tells it: holds creates back, fails, cannot be reached, says things late.
class FakeBackend final : public runtime::Backend {
 public:
  explicit FakeBackend(net::any_io_executor executor) : changed(executor) {}

  std::map<std::string, runtime::Instance> alive;
  std::vector<std::string> creates, removes;  // as they were asked for
  bool hold_creates = false, hold_snapshots = false, hold_watch = false;
  std::optional<Error> create_error, remove_error, pause_error, volume_error, remove_snapshot_error;
  std::optional<Error> away;  // said when it is looked for
  bool returned = false;      // back when it is looked for
  runtime::Observer* observer = nullptr;
  Notifier changed;  // after every call

  net::awaitable<void> until(std::function<bool()> condition) {
    (void)co_await changed.wait_until(std::move(condition));
  }
  void release_creates() {
    hold_creates = false;
    changed.notify_all();
  }
  void release_snapshots() {
    hold_snapshots = false;
    changed.notify_all();
  }
  void release_watch() {
    hold_watch = false;
    changed.notify_all();
  }
  void say(const std::string& id) {
    if (observer != nullptr) observer->on_change(alive.at(id));
  }
  std::vector<runtime::Instance> all() const {
    std::vector<runtime::Instance> out;
    for (const auto& [id, instance] : alive) out.push_back(instance);
    return out;
  }

  runtime::Capabilities capabilities() const override {
    runtime::Capabilities out;
    out.name = "FAKE";
    out.daemon = "the fake";
    out.pause = out.snapshots = true;
    return out;
  }
  Result<void> check(const api::CreateSandbox&) const override { return {}; }
  net::awaitable<Result<void>> check_volumes(const api::CreateSandbox&) override {
    if (volume_error) co_return Failure(*volume_error);
    co_return Result<void>();
  }

  net::awaitable<Result<runtime::Instance>> create(runtime::SandboxSpec spec) override {
    creates.push_back(spec.id);
    changed.notify_all();
    if (hold_creates) (void)co_await changed.wait_until([this] { return !hold_creates; });
    if (create_error) co_return Failure(*create_error);
    if (alive.contains(spec.id)) co_return fail(Code::Conflict, "exists");
    runtime::Instance instance;
    instance.id = spec.id;
    instance.state = runtime::InstanceState::Running;
    instance.address = "192.0.2.1";
    instance.execd_token = spec.execd_token;
    instance.labels = spec.labels;
    instance.image = spec.create->image ? spec.create->image->uri : "";
    instance.entrypoint = spec.create->entrypoint;
    alive[spec.id] = instance;
    changed.notify_all();
    co_return instance;
  }
  net::awaitable<Result<runtime::Instance>> inspect(std::string id) override {
    if (!alive.contains(id)) co_return fail(Code::NotFound, "unknown");
    co_return alive.at(id);
  }
  net::awaitable<Result<std::vector<runtime::Instance>>> list() override { co_return all(); }
  net::awaitable<void> watch(runtime::Observer& who) override {
    if (!co_await changed.wait_until([this] { return !hold_watch; })) co_return;
    observer = &who;
    who.on_all(all());
    (void)co_await changed.wait_until([] { return false; });
  }
  void look_again() override {
    if (observer == nullptr) return;
    if (away) observer->on_lost(*away);
    if (returned) observer->on_all(all());
  }
  net::awaitable<Result<void>> pause(std::string id) override {
    return freeze(std::move(id), runtime::InstanceState::Paused);
  }
  net::awaitable<Result<void>> resume(std::string id) override {
    return freeze(std::move(id), runtime::InstanceState::Running);
  }
  net::awaitable<Result<void>> remove(std::string id) override {
    removes.push_back(id);
    changed.notify_all();
    if (remove_error) co_return Failure(*remove_error);
    alive.erase(id);
    co_return Result<void>();
  }
  std::string origin(const runtime::Instance& instance, std::uint16_t port) const override {
    return instance.address + ":" + std::to_string(port);
  }
  std::unique_ptr<http::Connector> connector() override { return http::make_plain_connector(); }
  net::awaitable<Result<runtime::ResourceUse>> stats(std::string) override { co_return runtime::ResourceUse{}; }
  net::awaitable<Result<std::string>> logs(std::string, std::size_t) override { co_return std::string(); }
  net::awaitable<Result<std::unique_ptr<runtime::LogStream>>> open_logs(std::string, runtime::LogsFrom) override {
    if (!open_log) co_return fail(Code::NotFound, "no log");
    co_return open_log();
  }
  net::awaitable<Result<void>> create_snapshot(std::string, std::string snapshot) override {
    ++snapshots_begun;
    changed.notify_all();
    if (!co_await changed.wait_until([this] { return !hold_snapshots; })) co_return fail(Code::Cancelled, "ending");
    snapshots.push_back(snapshot);
    changed.notify_all();
    co_return Result<void>();
  }
  net::awaitable<Result<bool>> has_snapshot(std::string snapshot) override {
    co_return std::ranges::find(snapshots, snapshot) != snapshots.end();
  }
  net::awaitable<Result<void>> remove_snapshot(std::string snapshot) override {
    if (remove_snapshot_error) co_return Failure(*remove_snapshot_error);
    std::erase(snapshots, snapshot);
    co_return Result<void>();
  }
  net::awaitable<Result<std::vector<api::StoredImage>>> list_images() override { co_return none(); }
  net::awaitable<Result<api::StoredImage>> pull_image(api::PullImage,
                                                      std::function<void(const api::PullProgress&)>) override {
    co_return none();
  }
  net::awaitable<Result<std::vector<api::StoredImage>>> load_image(std::shared_ptr<http::BodySource>,
                                                                   std::string) override {
    co_return none();
  }
  net::awaitable<Result<void>> remove_image(std::string, bool) override { co_return none(); }

  std::vector<std::string> snapshots;
  int snapshots_begun = 0;
  std::function<std::unique_ptr<runtime::LogStream>()> open_log;

 private:
  static Failure none() { return fail(Code::Unsupported, "no images here"); }

  net::awaitable<Result<void>> freeze(std::string id, runtime::InstanceState state) {
    if (pause_error) co_return Failure(*pause_error);
    alive.at(id).state = state;
    say(id);
    co_return Result<void>();
  }
};

}  // namespace osb::server::testing
