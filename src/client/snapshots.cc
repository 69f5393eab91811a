// SandboxManager: snapshots and diagnostics.
#include <algorithm>
#include <opensandbox/async.h>

#include "async/timer.h"
#include "base/backoff.h"
#include "base/deadline.h"
#include "client/decode.h"
#include "client/server_call.h"

namespace opensandbox::async {
namespace {

using std::chrono::milliseconds;

Task<Snapshot> until_ready(ClientState state, std::string id, milliseconds timeout) {
  const osb::Deadline deadline(timeout);
  for (osb::Backoff pause(milliseconds(20), milliseconds(500));;) {
    auto now = co_await SandboxManager(Client(state)).snapshot(id);
    if (!now || now->status.state == "Ready") co_return now;
    if (now->status.state == "Failed") {
      Error error{.kind = ErrorKind::Unhealthy, .code = "UNHEALTHY"};
      error.message = "snapshot " + id + " failed: " + now->status.message;
      co_return Failure(std::move(error));
    }
    if (deadline.passed()) {
      Error error{.kind = ErrorKind::ReadyTimeout, .code = "READY_TIMEOUT"};
      error.message = "snapshot " + id + " was not Ready within " + std::to_string(timeout.count()) + " ms";
      co_return Failure(std::move(error));
    }
    if (!co_await osb::sleep_for(pause.next())) co_return cancelled("the wait was cancelled");
  }
}

}  // namespace

// --- snapshots

Task<Snapshot> SandboxManager::create_snapshot(std::string sandbox_id, std::string name) const {
  if (sandbox_id.empty()) return failed<Snapshot>(no_id("sandbox id"));
  json::object body;
  if (!name.empty()) body["name"] = name;
  return ask(client_.state(), json_call("POST", sandbox_target(sandbox_id, "/snapshots"), json::serialize(body)),
             decode_snapshot);
}

Task<Snapshot> SandboxManager::snapshot(std::string id) const {
  if (id.empty()) return failed<Snapshot>(no_id("snapshot id"));
  return ask(client_.state(), {.target = "/snapshots/" + encode(id)}, decode_snapshot);
}

Task<SnapshotList> SandboxManager::snapshots(SnapshotListOptions options) const {
  std::string target = "/snapshots";
  if (!options.sandbox_id.empty()) add_query(target, "sandboxId", options.sandbox_id);
  if (!options.name.empty()) add_query(target, "name", options.name);
  if (!options.match.empty()) add_query(target, "match", options.match);
  for (const auto& state : options.states) add_query(target, "state", state);
  if (options.page > 0) add_query(target, "page", std::to_string(options.page));
  if (options.page_size > 0) add_query(target, "pageSize", std::to_string(options.page_size));
  return ask(client_.state(), {.target = std::move(target)}, decode_snapshot_list);
}

Task<void> SandboxManager::delete_snapshot(std::string id) const {
  if (id.empty()) return failed<void>(no_id("snapshot id"));
  return tell(client_.state(), {.method = "DELETE", .target = "/snapshots/" + encode(id)});
}

Task<Snapshot> SandboxManager::wait_for_snapshot(std::string id, milliseconds timeout) const {
  return until_ready(client_.state(), std::move(id), timeout);
}

// --- diagnostics

Task<Diagnostics> SandboxManager::logs(std::string id, std::string scope, std::optional<int> tail,
                                       std::string since) const {
  if (id.empty()) return failed<Diagnostics>(no_id("sandbox id"));
  std::string target = sandbox_target(id, "/diagnostics/logs");
  add_query(target, "scope", scope);
  if (tail) add_query(target, "tail", std::to_string(*tail));
  if (!since.empty()) add_query(target, "since", since);
  return ask(client_.state(), {.target = std::move(target)}, decode_diagnostics);
}

Task<Diagnostics> SandboxManager::events(std::string id, std::string scope, std::optional<int> limit) const {
  if (id.empty()) return failed<Diagnostics>(no_id("sandbox id"));
  std::string target = sandbox_target(id, "/diagnostics/events");
  add_query(target, "scope", scope);
  if (limit) add_query(target, "limit", std::to_string(*limit));
  return ask(client_.state(), {.target = std::move(target)}, decode_diagnostics);
}

Task<DiagnosticContext> SandboxManager::diagnostic_context(std::string id) const {
  if (id.empty()) return failed<DiagnosticContext>(no_id("sandbox id"));
  return ask(client_.state(), {.target = sandbox_target(id, "/diagnostics/context")}, decode_diagnostic_context);
}

Task<std::string> SandboxManager::logs_text(std::string id, std::optional<int> tail, std::string since) const {
  if (id.empty()) return failed<std::string>(no_id("sandbox id"));
  std::string target = sandbox_target(id, "/diagnostics/logs");
  if (tail) add_query(target, "tail", std::to_string(*tail));
  if (!since.empty()) add_query(target, "since", since);
  return text(client_.state(), {.target = std::move(target)});
}

Task<std::string> SandboxManager::events_text(std::string id, std::optional<int> limit) const {
  if (id.empty()) return failed<std::string>(no_id("sandbox id"));
  std::string target = sandbox_target(id, "/diagnostics/events");
  if (limit) add_query(target, "limit", std::to_string(*limit));
  return text(client_.state(), {.target = std::move(target)});
}

Task<std::string> SandboxManager::inspect_text(std::string id) const {
  if (id.empty()) return failed<std::string>(no_id("sandbox id"));
  return text(client_.state(), {.target = sandbox_target(id, "/diagnostics/inspect")});
}

Task<std::string> SandboxManager::summary_text(std::string id, std::optional<int> tail,
                                               std::optional<int> event_limit) const {
  if (id.empty()) return failed<std::string>(no_id("sandbox id"));
  std::string target = sandbox_target(id, "/diagnostics/summary");
  if (tail) add_query(target, "tail", std::to_string(*tail));
  if (event_limit) add_query(target, "event_limit", std::to_string(*event_limit));
  return text(client_.state(), {.target = std::move(target)});
}

}  // namespace opensandbox::async
