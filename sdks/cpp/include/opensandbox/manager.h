#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "opensandbox/files.h"
#include "opensandbox/templates.h"
#include "opensandbox/types.h"

namespace opensandbox {

// Called with every state of a sandbox, on the calling thread; nullptr: the sandbox is gone. False ends the watch.
using StateHandler = std::function<bool(const SandboxInfo*)>;
// Called on the calling thread; false gives up (the server may go on).
using PullHandler = std::function<bool(const PullProgress&)>;

// Called on the calling thread with every piece of output; false ends the reading.
using LogHandler = std::function<bool(const LogOutput&)>;

// Operations by id, on the server only. Thread-safe; cheap to copy.
class SandboxManager {
 public:
  explicit SandboxManager(Client client) : client_(std::move(client)) {}
  const Client& client() const { return client_; }

  // --- sandboxes
  // Only the request: no readiness wait, nothing cleaned up (see Sandbox::create). `wait` asks the server to answer
  // when the sandbox is Running or Failed, at latest after so long; servers that do not know this answer at once.
  Result<SandboxInfo> create(const CreateOptions& options, std::chrono::seconds wait = {}) const;
  Result<SandboxInfo> get(const std::string& id) const;
  Result<SandboxList> list(const ListOptions& options = {}) const;
  // Every page, one after the other.
  Result<std::vector<SandboxInfo>> list_all(ListOptions options = {}) const;
  Result<void> kill(const std::string& id) const;
  Result<void> pause(const std::string& id) const;
  Result<void> resume(const std::string& id) const;
  // From now on. Returns the new end.
  Result<Timestamp> renew(const std::string& id, std::chrono::milliseconds timeout) const;
  Result<Timestamp> renew_until(const std::string& id, Timestamp expires_at) const;
  Result<SandboxInfo> patch_metadata(const std::string& id, const MetadataPatch& patch) const;
  Result<Endpoint> endpoint(const std::string& id, int port, const EndpointOptions& options = {}) const;
  // The state now and after every change, until the sandbox is gone or the handler returns false. Uses the server's
  // stream where it has one (?watch=true), else looks every `poll_interval`.
  Result<void> watch(const std::string& id, const StateHandler& handler,
                     std::chrono::milliseconds poll_interval = std::chrono::milliseconds(1000)) const;
  // Until the state is one of these. A sandbox that fails or ends instead is ErrorKind::Unhealthy, one that takes too
  // long ErrorKind::ReadyTimeout.
  Result<SandboxInfo> wait_for_state(const std::string& id, const std::vector<std::string>& states,
                                     std::chrono::milliseconds timeout) const;

  // --- snapshots
  Result<Snapshot> create_snapshot(const std::string& sandbox_id, const std::string& name = {}) const;
  Result<Snapshot> snapshot(const std::string& id) const;
  Result<SnapshotList> snapshots(const SnapshotListOptions& options = {}) const;
  Result<void> delete_snapshot(const std::string& id) const;
  // Until it is Ready; Failed is ErrorKind::Unhealthy.
  Result<Snapshot> wait_for_snapshot(const std::string& id, std::chrono::milliseconds timeout) const;

  // --- templates: images that were started and warmed up once
  Result<Template> create_template(const CreateTemplateOptions& options) const;
  Result<Template> get_template(const std::string& id) const;
  Result<TemplateList> templates(const TemplateListOptions& options = {}) const;
  Result<void> delete_template(const std::string& id) const;
  // Output of a build that is under way or has failed. Not in the published contract.
  Result<std::string> template_logs(const std::string& id) const;
  // Until it has Succeeded; Failed is ErrorKind::Unhealthy.
  Result<Template> wait_for_template(const std::string& id, std::chrono::milliseconds timeout) const;

  // --- images
  Result<std::vector<Image>> images() const;
  Result<Image> pull_image(const PullOptions& options, const PullHandler& progress = {}) const;
  // An OCI or docker-save archive, by name or piece by piece. `name` names images that the archive does not.
  Result<std::vector<Image>> load_image(const std::string& local_file, const std::string& name = {},
                                        const TransferProgress& progress = {}) const;
  Result<std::vector<Image>> load_image(const ByteSource& archive, const std::string& name = {}) const;
  Result<void> remove_image(const std::string& uri, bool force = false) const;

  // --- diagnostics: JSON for programs (scope container, lifecycle, ..; "" is the kind's default)
  Result<Diagnostics> logs(const std::string& id, const std::string& scope, std::optional<int> tail = std::nullopt,
                           const std::string& since = {}) const;
  // The entrypoint's output as it comes, told by the server. A sandbox that is removed, a backend or a server that goes
  // away meanwhile is an error. Servers without this answer 404, as they do for a sandbox that does not exist.
  Result<LogEnd> follow_logs(const std::string& id, const LogHandler& handler, const LogOptions& options = {}) const;
  Result<Diagnostics> events(const std::string& id, const std::string& scope,
                             std::optional<int> limit = std::nullopt) const;
  Result<DiagnosticContext> diagnostic_context(const std::string& id) const;
  // Plain text for people.
  Result<std::string> logs_text(const std::string& id, std::optional<int> tail = std::nullopt,
                                const std::string& since = {}) const;
  Result<std::string> events_text(const std::string& id, std::optional<int> limit = std::nullopt) const;
  Result<std::string> inspect_text(const std::string& id) const;
  Result<std::string> summary_text(const std::string& id, std::optional<int> tail = std::nullopt,
                                   std::optional<int> event_limit = std::nullopt) const;

  // Any other request to the server, for what this class does not know: path below /v1 with query ("/pools"), body as
  // JSON. Returns the body; statuses from 400 on are errors.
  Result<std::string> request(const std::string& method, const std::string& path, const std::string& body = {}) const;

 private:
  Client client_;
};

}  // namespace opensandbox
