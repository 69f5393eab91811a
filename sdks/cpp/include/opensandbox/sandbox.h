#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "opensandbox/code.h"
#include "opensandbox/commands.h"
#include "opensandbox/egress.h"
#include "opensandbox/files.h"
#include "opensandbox/isolated.h"
#include "opensandbox/manager.h"
#include "opensandbox/pty.h"
#include "opensandbox/types.h"

namespace opensandbox {

class Sandbox;
// A check of the caller's own instead of execd's /ping: true when the sandbox is ready. Called on the calling thread;
// an error counts as not ready.
using HealthCheck = std::function<Result<bool>(Sandbox&)>;
// Called on the calling thread; false ends the watch.
using MetricsHandler = std::function<bool(const Metrics&)>;

inline constexpr int kExecdPort = 44772;
inline constexpr int kEgressPort = 18080;

struct ConnectOptions {
  ReadyOptions ready = {};
  HealthCheck health_check = {};
};

// One sandbox. A handle that is cheap to copy; dropping it leaves the sandbox alone (kill() ends it). Thread-safe.
class Sandbox {
 public:
  // Makes one and waits until it answers. When that fails the sandbox is removed again and the first error returned.
  static Result<Sandbox> create(const Client& client, const CreateOptions& options,
                                const HealthCheck& health_check = {});
  // An existing one. Waits until it answers.
  static Result<Sandbox> connect(const Client& client, const std::string& id, const ConnectOptions& options = {});
  // A paused one. Resumes it and waits until it answers.
  static Result<Sandbox> resume(const Client& client, const std::string& id, const ConnectOptions& options = {});
  // Sends no request: the endpoint of execd is looked up with the first use. For programs that know the id and want the
  // fewest requests.
  static Sandbox attach(const Client& client, const std::string& id);

  const std::string& id() const;
  const Client& client() const;
  SandboxManager manager() const { return SandboxManager(client()); }

  Result<SandboxInfo> info() const;
  Result<void> kill() const;
  Result<void> pause() const;
  Result<void> resume(const ConnectOptions& options = {}) const;  // and waits until it answers
  Result<Timestamp> renew(std::chrono::milliseconds timeout) const;
  Result<SandboxInfo> patch_metadata(const MetadataPatch& patch) const;
  Result<Endpoint> endpoint(int port, const EndpointOptions& options = {}) const;
  Result<Snapshot> create_snapshot(const std::string& name = {}) const;
  // execd answers.
  Result<bool> is_healthy() const;
  Result<void> wait_until_ready(const ConnectOptions& options = {}) const;

  Commands commands() const;
  Sessions sessions() const;
  Ptys ptys() const;
  Files files() const;
  // The file routes as another user of the sandbox. Not in the published contract.
  Files files_as(std::uint32_t uid, std::uint32_t gid) const;
  IsolatedSessions isolated() const;
  CodeInterpreter code() const;
  Egress egress() const;
  CredentialVault credential_vault() const;

  Result<Metrics> metrics() const;
  // About once a second until the handler has enough or the sandbox ends.
  Result<void> watch_metrics(const MetricsHandler& handler) const;

  struct Impl;  // internal
  explicit Sandbox(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace opensandbox
