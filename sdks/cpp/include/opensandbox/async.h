#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "opensandbox/code.h"
#include "opensandbox/commands.h"
#include "opensandbox/egress.h"
#include "opensandbox/files.h"
#include "opensandbox/isolated.h"
#include "opensandbox/manager.h"
#include "opensandbox/pty.h"
#include "opensandbox/sandbox.h"
#include "opensandbox/types.h"

// The same API as coroutines, on an executor of the caller. The synchronous classes are built on it. Names and meanings
// are theirs; see there. Needs Boost.Asio, and the compile definitions that the CMake target and the pkg-config file
// carry (they decide the layout of Asio's own types).
//
// All objects made from one client are used on its executor's thread only: an io_context that one thread runs, or a
// strand of it. Handles are cheap to copy and keep what they need alive. Arguments are taken by value, so temporaries
// are fine. Cancelling a coroutine that waits in one of these calls ends the request; a create first removes the
// sandbox that it has made (at most 10 s).
namespace opensandbox::async {

template <typename T>
using Task = boost::asio::awaitable<Result<T>>;

// The next piece, empty at the end; the view lives until the next call. An error stops the transfer.
using ByteSource = std::function<Task<std::string_view>()>;
// Takes a piece; the view lives until it returns. The sender is held back meanwhile. An error stops the transfer.
using ByteSink = std::function<Task<void>(std::string_view)>;
// Takes events, as many as have come. An error ends the stream, not the command, and is what the call returns.
using EventSink = std::function<Task<void>(std::span<const ExecutionEvent>)>;
// False: enough.
using StateSink = std::function<Task<bool>(const SandboxInfo*)>;
using LogSink = std::function<Task<bool>(std::span<const LogOutput>)>;
// The same for decisions about a sandbox's network.
using EgressDecisionSink = std::function<Task<bool>(const EgressDecision&)>;
using CredentialAuditSink = std::function<Task<bool>(const CredentialAuditLine&)>;
using PullSink = std::function<Task<bool>(const PullProgress&)>;
using MetricsSink = std::function<Task<bool>(const Metrics&)>;

// A connection to one server.
class Client {
 public:
  static Result<Client> open(boost::asio::any_io_executor executor, ConnectionConfig config = {});

  const ConnectionConfig& config() const;
  boost::asio::any_io_executor executor() const;
  Task<void> ping() const;

  struct State;  // internal
  explicit Client(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

class SandboxManager {
 public:
  explicit SandboxManager(Client client) : client_(std::move(client)) {}

  Task<SandboxInfo> create(CreateOptions options, std::chrono::seconds wait = {}) const;
  Task<SandboxInfo> get(std::string id) const;
  Task<SandboxList> list(ListOptions options = {}) const;
  Task<std::vector<SandboxInfo>> list_all(ListOptions options = {}) const;
  Task<void> kill(std::string id) const;
  Task<void> pause(std::string id) const;
  Task<void> resume(std::string id) const;
  Task<Timestamp> renew(std::string id, std::chrono::milliseconds timeout) const;
  Task<Timestamp> renew_until(std::string id, Timestamp expires_at) const;
  Task<SandboxInfo> patch_metadata(std::string id, MetadataPatch patch) const;
  Task<Endpoint> endpoint(std::string id, int port, EndpointOptions options = {}) const;
  Task<void> watch(std::string id, StateSink sink,
                   std::chrono::milliseconds poll_interval = std::chrono::milliseconds(1000)) const;
  Task<SandboxInfo> wait_for_state(std::string id, std::vector<std::string> states,
                                   std::chrono::milliseconds timeout) const;

  Task<Snapshot> create_snapshot(std::string sandbox_id, std::string name = {}) const;
  Task<Snapshot> snapshot(std::string id) const;
  Task<SnapshotList> snapshots(SnapshotListOptions options = {}) const;
  Task<void> delete_snapshot(std::string id) const;
  Task<Snapshot> wait_for_snapshot(std::string id, std::chrono::milliseconds timeout) const;

  Task<Template> create_template(CreateTemplateOptions options) const;
  Task<Template> get_template(std::string id) const;
  Task<TemplateList> templates(TemplateListOptions options = {}) const;
  Task<void> delete_template(std::string id) const;
  Task<std::string> template_logs(std::string id) const;
  Task<Template> wait_for_template(std::string id, std::chrono::milliseconds timeout) const;

  Task<std::vector<Image>> images() const;
  Task<Image> pull_image(PullOptions options, PullSink sink = {}) const;
  Task<std::vector<Image>> load_image(ByteSource archive, std::string name = {},
                                      std::optional<std::uint64_t> length = {}) const;
  Task<void> remove_image(std::string uri, bool force = false) const;

  Task<Diagnostics> logs(std::string id, std::string scope, std::optional<int> tail = {}, std::string since = {}) const;
  Task<LogEnd> follow_logs(std::string id, LogSink sink, LogOptions options = {}) const;
  Task<Diagnostics> events(std::string id, std::string scope, std::optional<int> limit = {}) const;
  Task<DiagnosticContext> diagnostic_context(std::string id) const;
  Task<std::string> logs_text(std::string id, std::optional<int> tail = {}, std::string since = {}) const;
  Task<std::string> events_text(std::string id, std::optional<int> limit = {}) const;
  Task<std::string> inspect_text(std::string id) const;
  Task<std::string> summary_text(std::string id, std::optional<int> tail = {},
                                 std::optional<int> event_limit = {}) const;
  Task<std::string> request(std::string method, std::string path, std::string body = {}) const;

 private:
  Client client_;
};

// A sandbox's services share this: where its ports are reached, looked up once.
class SandboxState;

class Commands {
 public:
  explicit Commands(std::shared_ptr<SandboxState> sandbox) : sandbox_(std::move(sandbox)) {}

  Task<Execution> run(std::string command, RunOptions options = {}, EventSink sink = {}) const;
  Task<Execution> run_program(std::vector<std::string> argv, RunOptions options = {}, EventSink sink = {}) const;
  Task<Execution> follow(std::string id, std::uint64_t after, RunOptions options = {}, EventSink sink = {}) const;
  Task<void> set_env(std::string name, std::string value) const;
  Task<void> interrupt(std::string id) const;
  Task<CommandStatus> status(std::string id) const;
  Task<CommandLogs> logs(std::string id, std::optional<std::int64_t> cursor = {}) const;

 private:
  std::shared_ptr<SandboxState> sandbox_;
};

class Sessions {
 public:
  explicit Sessions(std::shared_ptr<SandboxState> sandbox) : sandbox_(std::move(sandbox)) {}

  Task<std::string> create(std::string cwd = {}) const;
  Task<Execution> run(std::string session_id, std::string command, SessionRunOptions options = {},
                      EventSink sink = {}) const;
  Task<void> remove(std::string session_id) const;

 private:
  std::shared_ptr<SandboxState> sandbox_;
};

class CodeInterpreter {
 public:
  explicit CodeInterpreter(std::shared_ptr<SandboxState> sandbox) : sandbox_(std::move(sandbox)) {}

  Task<CodeContext> create_context(std::string language, CodeContextOptions options = {}) const;
  Task<CodeContext> context(std::string id) const;
  Task<std::vector<CodeContext>> contexts(std::string language) const;
  Task<void> remove_context(std::string id) const;
  Task<void> remove_contexts(std::string language) const;
  Task<Execution> run(std::string code, RunCodeOptions options = {}, EventSink sink = {}) const;
  Task<void> interrupt(std::string execution_id) const;

 private:
  std::shared_ptr<SandboxState> sandbox_;
};

class Files {
 public:
  // `prefix` goes in front of every route: "", "/v1/filesystem/{uid}/{gid}" or "/v1/isolated/session/{id}".
  explicit Files(std::shared_ptr<SandboxState> sandbox, std::string prefix = {})
      : sandbox_(std::move(sandbox)), prefix_(std::move(prefix)) {}

  Task<std::string> read(std::string path, ReadRange range = {}) const;
  // `on_start` gets the length if it is known, before the first piece.
  Task<std::uint64_t> read_to(std::string path, ByteSink sink, ReadRange range = {},
                              std::function<void(std::optional<std::uint64_t>)> on_start = {}) const;
  Task<void> write(std::string path, std::string data, Permission permission = {}) const;
  Task<void> write_all(std::vector<WriteEntry> entries) const;
  Task<std::uint64_t> write_from(std::string path, ByteSource source, Permission permission = {},
                                 std::optional<std::uint64_t> length = {}) const;
  Task<std::uint64_t> read_archive(std::string remote, ByteSink sink) const;
  Task<std::uint64_t> write_archive(std::string remote, ByteSource source) const;

  Task<FileInfo> info(std::string path) const;
  Task<std::map<std::string, FileInfo>> infos(std::vector<std::string> paths) const;
  Task<std::vector<FileInfo>> list(std::string path, std::optional<int> depth = {}) const;
  Task<std::vector<FileInfo>> search(std::string path, std::string pattern) const;
  Task<void> move_all(std::vector<std::pair<std::string, std::string>> moves) const;
  Task<void> remove(std::vector<std::string> paths) const;
  Task<void> make_directories(std::vector<std::string> paths, Permission permission = {}) const;
  Task<void> remove_directories(std::vector<std::string> paths) const;
  Task<void> set_permissions(std::map<std::string, Permission> paths) const;
  Task<std::map<std::string, std::int64_t>> replace(std::vector<opensandbox::Files::Replacement> replacements) const;

 private:
  std::shared_ptr<SandboxState> sandbox_;
  std::string prefix_;
};

class IsolatedSessions {
 public:
  explicit IsolatedSessions(std::shared_ptr<SandboxState> sandbox) : sandbox_(std::move(sandbox)) {}

  Task<IsolationCapabilities> capabilities() const;
  Task<IsolatedSession> create(IsolatedSessionOptions options) const;
  Task<IsolatedSession> get(std::string id) const;
  Task<std::vector<IsolatedSession>> list() const;
  Task<void> remove(std::string id) const;
  Task<Execution> run(std::string id, std::string code, IsolatedRunOptions options = {}, EventSink sink = {}) const;
  Task<IsolatedRun> run_background(std::string id, std::string code, StringMap envs = {}) const;
  Task<IsolatedRun> run_status(std::string id, std::string run_id) const;
  Task<CommandLogs> run_logs(std::string id, std::string run_id, std::optional<std::int64_t> cursor = {}) const;
  Files files(std::string id) const;
  Task<std::uint64_t> diff(std::string id, ByteSink sink) const;
  Task<IsolatedCommit> commit(std::string id) const;

 private:
  std::shared_ptr<SandboxState> sandbox_;
};

// One coroutine may read while others write.
class PtyConnection {
 public:
  Task<PtyFrame> read() const;
  Task<void> write(std::string input) const;
  Task<void> end_input() const;
  Task<void> resize(int columns, int rows) const;
  Task<void> signal(std::string name) const;
  Task<void> ping() const;
  std::uint64_t offset() const;
  boost::asio::awaitable<void> detach() const;

  struct State;  // internal
  explicit PtyConnection(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

class Ptys {
 public:
  explicit Ptys(std::shared_ptr<SandboxState> sandbox) : sandbox_(std::move(sandbox)) {}

  Task<std::string> create(PtyCreateOptions options = {}) const;
  Task<PtyStatus> status(std::string id) const;
  Task<void> remove(std::string id) const;
  Task<PtyConnection> attach(std::string id, PtyAttachOptions options = {}) const;

 private:
  std::shared_ptr<SandboxState> sandbox_;
};

class Egress {
 public:
  explicit Egress(std::shared_ptr<SandboxState> sandbox) : sandbox_(std::move(sandbox)) {}

  Task<bool> available() const;
  Task<EgressPolicy> get() const;
  Task<EgressPolicy> replace(NetworkPolicy policy) const;
  Task<EgressPolicy> patch(std::vector<NetworkRule> rules) const;
  Task<EgressPolicy> remove(std::vector<std::string> targets) const;
  Task<std::vector<EgressDecision>> decisions() const;
  Task<void> follow_decisions(EgressDecisionSink sink) const;

 private:
  std::shared_ptr<SandboxState> sandbox_;
};

class CredentialVault {
 public:
  explicit CredentialVault(std::shared_ptr<SandboxState> sandbox) : sandbox_(std::move(sandbox)) {}

  Task<CredentialVaultState> create(std::vector<Credential> credentials, std::vector<CredentialBinding> bindings) const;
  Task<CredentialVaultState> get() const;
  Task<CredentialVaultState> patch(CredentialVaultPatch patch) const;
  Task<void> remove() const;
  Task<std::vector<CredentialMetadata>> credentials() const;
  Task<CredentialMetadata> credential(std::string name) const;
  Task<std::vector<CredentialBindingMetadata>> bindings() const;
  Task<CredentialBindingMetadata> binding(std::string name) const;

  Task<std::vector<CredentialAuditLine>> audit() const;
  Task<void> follow_audit(CredentialAuditSink sink) const;

 private:
  std::shared_ptr<SandboxState> sandbox_;
};

class Sandbox;
using HealthCheck = std::function<Task<bool>(Sandbox)>;

struct ConnectOptions {
  ReadyOptions ready = {};
  HealthCheck health_check = {};
};

class Sandbox {
 public:
  static Task<Sandbox> create(Client client, CreateOptions options, HealthCheck health_check = {});
  static Task<Sandbox> connect(Client client, std::string id, ConnectOptions options = {});
  static Task<Sandbox> resume(Client client, std::string id, ConnectOptions options = {});
  static Sandbox attach(Client client, std::string id);

  const std::string& id() const;
  const Client& client() const;
  SandboxManager manager() const { return SandboxManager(client()); }

  Task<SandboxInfo> info() const { return manager().get(id()); }
  Task<void> kill() const { return manager().kill(id()); }
  Task<void> pause() const { return manager().pause(id()); }
  Task<void> resume(ConnectOptions options = {}) const;
  Task<Timestamp> renew(std::chrono::milliseconds timeout) const { return manager().renew(id(), timeout); }
  Task<SandboxInfo> patch_metadata(MetadataPatch patch) const;
  Task<Endpoint> endpoint(int port, EndpointOptions options = {}) const;
  Task<Snapshot> create_snapshot(std::string name = {}) const;
  Task<bool> is_healthy() const;
  Task<void> wait_until_ready(ConnectOptions options = {}) const;

  Commands commands() const { return Commands(state_); }
  Sessions sessions() const { return Sessions(state_); }
  Ptys ptys() const { return Ptys(state_); }
  Files files() const { return Files(state_); }
  Files files_as(std::uint32_t uid, std::uint32_t gid) const;
  IsolatedSessions isolated() const { return IsolatedSessions(state_); }
  CodeInterpreter code() const { return CodeInterpreter(state_); }
  Egress egress() const { return Egress(state_); }
  CredentialVault credential_vault() const { return CredentialVault(state_); }

  Task<Metrics> metrics() const;
  Task<void> watch_metrics(MetricsSink sink) const;

  explicit Sandbox(std::shared_ptr<SandboxState> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<SandboxState> state_;
};

}  // namespace opensandbox::async
