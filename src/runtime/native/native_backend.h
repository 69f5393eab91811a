#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "async/timer.h"
#include "runtime/backend.h"
#include "runtime/native/sandboxd_client.h"

namespace osb::runtime {

// Sandboxes of this host, made by sandboxd, the root daemon behind a Unix socket.
class NativeBackend final : public Backend {
 public:
  // `runtime` is what sandboxd shall run sandboxes with: "" is its default, else one of its OCI runtimes.
  NativeBackend(std::string socket, std::chrono::milliseconds timeout, std::string runtime = "");

  // Whether the daemon is there, for the log at start; the backend also works when it comes later.
  net::awaitable<Result<std::string>> daemon_version();

  Capabilities capabilities() const override;
  Result<void> check(const api::CreateSandbox& create) const override;
  net::awaitable<Result<Instance>> create(SandboxSpec spec) override;
  net::awaitable<Result<Instance>> inspect(std::string id) override;
  net::awaitable<Result<std::vector<Instance>>> list() override;
  net::awaitable<void> watch(Observer& observer) override;
  void look_again() override;
  net::awaitable<Result<void>> pause(std::string id) override;
  net::awaitable<Result<void>> resume(std::string id) override;
  net::awaitable<Result<void>> remove(std::string id) override;
  std::string origin(const Instance& instance, std::uint16_t port) const override;
  std::unique_ptr<http::Connector> connector() override;
  net::awaitable<Result<ResourceUse>> stats(std::string id) override;
  net::awaitable<Result<std::string>> logs(std::string id, std::size_t bytes) override;
  net::awaitable<Result<std::unique_ptr<LogStream>>> open_logs(std::string id, LogsFrom from) override;
  net::awaitable<Result<void>> create_snapshot(std::string sandbox, std::string snapshot) override;
  net::awaitable<Result<bool>> has_snapshot(std::string snapshot) override;
  net::awaitable<Result<void>> remove_snapshot(std::string snapshot) override;
  net::awaitable<Result<std::shared_ptr<http::BodySource>>> export_snapshot(std::string snapshot) override;
  net::awaitable<Result<std::vector<api::StoredImage>>> list_images() override;
  net::awaitable<Result<api::StoredImage>> pull_image(api::PullImage image,
                                                      std::function<void(const api::PullProgress&)> progress) override;
  net::awaitable<Result<std::vector<api::StoredImage>>> load_image(std::shared_ptr<http::BodySource> archive,
                                                                   std::string name) override;
  net::awaitable<Result<void>> remove_image(std::string name, bool force) override;

 private:
  SandboxdClient daemon_;
  std::string runtime_;
  std::optional<Notifier> look_again_;  // while watch() runs
};

}  // namespace osb::runtime
