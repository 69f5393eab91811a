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

struct FakePorts final : runtime::PortMap {
  runtime::Route route(std::uint16_t port) const override { return {"192.0.2.1:" + std::to_string(port), ""}; }
  runtime::ClientRoute client_route(std::uint16_t port) const override {
    return {"192.0.2.1:" + std::to_string(port), false};
  }
};

// A backend in memory that does what a test tells it: holds creates back, fails, cannot be reached, says things late.
class FakeBackend final : public runtime::Backend, public runtime::Lifecycle, public runtime::Logs {
 public:
  explicit FakeBackend(net::any_io_executor executor) : changed(executor) {}

  std::map<std::string, runtime::Instance> alive;
  std::vector<std::string> creates, removes;  // as they were asked for
  bool hold_creates = false, hold_snapshots = false, hold_watch = false, hold_resumes = false;
  int resumes = 0;
  std::optional<Error> create_error, remove_error, pause_error, volume_error, remove_snapshot_error;
  std::optional<Error> away;  // said when it is looked for
  bool returned = false;      // back when it is looked for
  runtime::Observer* observer = nullptr;
  Notifier changed;  // after every call
  runtime::Capabilities can = make_capabilities();

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
  void release_resumes() {
    hold_resumes = false;
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

  const runtime::Capabilities& capabilities() const override { return can; }
  Lifecycle& lifecycle() override { return *this; }
  std::unique_ptr<http::Connector> connector() override { return http::make_plain_connector(); }
  Logs* logs() override { return this; }
  runtime::Snapshots* snapshots() override { return &snapshots_; }

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
    instance.ports = std::make_shared<FakePorts>();
    instance.execd_token = spec.execd_token;
    instance.egress_token = spec.egress_token;
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
    ++resumes;
    if (hold_resumes) (void)co_await changed.wait_until([this] { return !hold_resumes; });
    co_return co_await freeze(std::move(id), runtime::InstanceState::Running);
  }
  net::awaitable<Result<void>> remove(std::string id) override {
    removes.push_back(id);
    changed.notify_all();
    if (remove_error) co_return Failure(*remove_error);
    alive.erase(id);
    co_return Result<void>();
  }
  net::awaitable<Result<runtime::ResourceUse>> stats(std::string) override { co_return runtime::ResourceUse{}; }
  net::awaitable<Result<std::string>> tail(std::string, std::size_t) override { co_return std::string(); }
  net::awaitable<Result<std::unique_ptr<runtime::LogStream>>> open(std::string, runtime::LogsFrom) override {
    if (!open_log) co_return fail(Code::NotFound, "no log");
    co_return open_log();
  }
  std::vector<std::string> kept_snapshots;
  int snapshots_begun = 0;
  std::function<std::unique_ptr<runtime::LogStream>()> open_log;

 private:
  static runtime::Capabilities make_capabilities() {
    runtime::Capabilities out;
    out.backend = "FAKE";
    out.daemon = "the fake";
    return out;
  }

  class FakeSnapshots final : public runtime::Snapshots {
   public:
    explicit FakeSnapshots(FakeBackend& all) : all_(all) {}
    net::awaitable<Result<void>> create(runtime::SnapshotSpec spec) override {
      ++all_.snapshots_begun;
      all_.changed.notify_all();
      if (!co_await all_.changed.wait_until([this] { return !all_.hold_snapshots; })) {
        co_return fail(Code::Cancelled, "ending");
      }
      all_.kept_snapshots.push_back(spec.id);
      all_.changed.notify_all();
      co_return Result<void>();
    }
    net::awaitable<Result<bool>> exists(std::string snapshot) override {
      co_return std::ranges::find(all_.kept_snapshots, snapshot) != all_.kept_snapshots.end();
    }
    net::awaitable<Result<void>> remove(std::string snapshot) override {
      if (all_.remove_snapshot_error) co_return Failure(*all_.remove_snapshot_error);
      std::erase(all_.kept_snapshots, snapshot);
      co_return Result<void>();
    }
    net::awaitable<Result<std::shared_ptr<http::BodySource>>> export_archive(std::string) override {
      co_return fail(Code::Unsupported, "this backend does not export snapshots");
    }

   private:
    FakeBackend& all_;
  };

  net::awaitable<Result<void>> freeze(std::string id, runtime::InstanceState state) {
    if (pause_error) co_return Failure(*pause_error);
    alive.at(id).state = state;
    say(id);
    co_return Result<void>();
  }

  FakeSnapshots snapshots_{*this};
};

}  // namespace osb::server::testing
