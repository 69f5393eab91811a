#include <opensandbox/sandbox.h>

#include "client/sync.h"

namespace opensandbox {
namespace {

Sandbox wrap(const Client& client, async::Sandbox sandbox) {
  return Sandbox(std::make_shared<Sandbox::Impl>(Sandbox::Impl{client, std::move(sandbox)}));
}

async::ConnectOptions connect_options(Caller& caller, const Client& client, const ConnectOptions& options) {
  return {.ready = options.ready, .health_check = health_check(caller, client, options.health_check)};
}

}  // namespace

async::HealthCheck health_check(Caller& caller, const Client& client, const HealthCheck& check) {
  if (!check) return {};
  return [&caller, &client, &check](async::Sandbox sandbox) -> async::Task<bool> {
    Sandbox handle = wrap(client, std::move(sandbox));
    co_return co_await caller.run<bool>([&check, handle = std::move(handle)]() mutable { return check(handle); });
  };
}

Result<Sandbox> Sandbox::create(const Client& client, const CreateOptions& options, const HealthCheck& check) {
  auto made = client.core()->run([&](Caller& caller) {
    return async::Sandbox::create(*client.core()->client, options, health_check(caller, client, check));
  });
  if (!made) return Failure(std::move(made.error()));
  return wrap(client, std::move(*made));
}

Result<Sandbox> Sandbox::connect(const Client& client, const std::string& id, const ConnectOptions& options) {
  auto made = client.core()->run([&](Caller& caller) {
    return async::Sandbox::connect(*client.core()->client, id, connect_options(caller, client, options));
  });
  if (!made) return Failure(std::move(made.error()));
  return wrap(client, std::move(*made));
}

Result<Sandbox> Sandbox::resume(const Client& client, const std::string& id, const ConnectOptions& options) {
  auto made = client.core()->run([&](Caller& caller) {
    return async::Sandbox::resume(*client.core()->client, id, connect_options(caller, client, options));
  });
  if (!made) return Failure(std::move(made.error()));
  return wrap(client, std::move(*made));
}

Sandbox Sandbox::attach(const Client& client, const std::string& id) {
  return wrap(client, async::Sandbox::attach(*client.core()->client, id));
}

const std::string& Sandbox::id() const { return impl_->sandbox.id(); }
const Client& Sandbox::client() const { return impl_->client; }

Result<SandboxInfo> Sandbox::info() const { return client().core()->run_task(impl_->sandbox.info()); }
Result<void> Sandbox::kill() const { return client().core()->run_task(impl_->sandbox.kill()); }
Result<void> Sandbox::pause() const { return client().core()->run_task(impl_->sandbox.pause()); }
Result<void> Sandbox::resume(const ConnectOptions& options) const {
  return client().core()->run(
      [&](Caller& caller) { return impl_->sandbox.resume(connect_options(caller, client(), options)); });
}
Result<Timestamp> Sandbox::renew(std::chrono::milliseconds timeout) const {
  return client().core()->run_task(impl_->sandbox.renew(timeout));
}
Result<SandboxInfo> Sandbox::patch_metadata(const MetadataPatch& patch) const {
  return client().core()->run_task(impl_->sandbox.patch_metadata(patch));
}
Result<Endpoint> Sandbox::endpoint(int port, const EndpointOptions& options) const {
  return client().core()->run_task(impl_->sandbox.endpoint(port, options));
}
Result<Snapshot> Sandbox::create_snapshot(const std::string& name) const {
  return client().core()->run_task(impl_->sandbox.create_snapshot(name));
}
Result<bool> Sandbox::is_healthy() const { return client().core()->run_task(impl_->sandbox.is_healthy()); }
Result<void> Sandbox::wait_until_ready(const ConnectOptions& options) const {
  return client().core()->run(
      [&](Caller& caller) { return impl_->sandbox.wait_until_ready(connect_options(caller, client(), options)); });
}

Commands Sandbox::commands() const {
  return Commands(std::make_shared<Commands::Impl>(Commands::Impl{impl_->client, impl_->sandbox}));
}
Sessions Sandbox::sessions() const {
  return Sessions(std::make_shared<Commands::Impl>(Commands::Impl{impl_->client, impl_->sandbox}));
}
IsolatedSessions Sandbox::isolated() const {
  return IsolatedSessions(std::make_shared<Commands::Impl>(Commands::Impl{impl_->client, impl_->sandbox}));
}
CodeInterpreter Sandbox::code() const {
  return CodeInterpreter(std::make_shared<Commands::Impl>(Commands::Impl{impl_->client, impl_->sandbox}));
}
Ptys Sandbox::ptys() const { return Ptys(std::make_shared<Ptys::Impl>(Ptys::Impl{impl_->client, impl_->sandbox})); }
Files Sandbox::files() const {
  return Files(std::make_shared<Files::Impl>(Files::Impl{impl_->client, impl_->sandbox.files()}));
}
Files Sandbox::files_as(std::uint32_t uid, std::uint32_t gid) const {
  return Files(std::make_shared<Files::Impl>(Files::Impl{impl_->client, impl_->sandbox.files_as(uid, gid)}));
}
Egress Sandbox::egress() const {
  return Egress(std::make_shared<Egress::Impl>(Egress::Impl{impl_->client, impl_->sandbox}));
}
CredentialVault Sandbox::credential_vault() const {
  return CredentialVault(std::make_shared<Egress::Impl>(Egress::Impl{impl_->client, impl_->sandbox}));
}

Result<Metrics> Sandbox::metrics() const { return client().core()->run_task(impl_->sandbox.metrics()); }
Result<void> Sandbox::watch_metrics(const MetricsHandler& handler) const {
  return client().core()->run([&](Caller& caller) {
    return impl_->sandbox.watch_metrics([&caller, &handler](const Metrics& metrics) -> async::Task<bool> {
      return caller.run<bool>([&handler, &metrics]() -> Result<bool> { return handler(metrics); });
    });
  });
}

}  // namespace opensandbox
