#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/lifecycle_create.h"
#include "api/lifecycle_metadata.h"
#include "async/net.h"
#include "base/error.h"
#include "runtime/instance.h"
#include "runtime/snapshots.h"

namespace osb::runtime {

// A sandbox to make. The server chooses the id and the token that execd asks for, before the backend hears of them.
struct SandboxSpec {
  std::string id;
  std::shared_ptr<const api::CreateSandbox> create;  // checked by api::check_create()
  std::string execd_token;
  std::string egress_token = {};  // of its policy API; "" without a policy
  // The sandbox carries these and Instance::labels gives them back, in the contract's form: the user's metadata, and
  // names below opensandbox.io/ (runtime/labels.h). A backend may add names of its own.
  api::StringMap labels = {};
  std::string access_token = {};  // that requests to its ports carry; "" without secureAccess
};

// Receives a backend's events. Called on the loop, in order; must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  // Every sandbox there is: at the beginning, and again whenever changes may have been missed.
  virtual void on_all(std::vector<Instance> instances) = 0;
  virtual void on_change(Instance instance) = 0;
  virtual void on_removed(std::string id) = 0;
  // The connection to the backend is lost; on_all() follows when it is back.
  virtual void on_lost(const Error& why) = 0;
  // The same for snapshots, from backends that keep the catalogue.
  virtual void on_all_snapshots(std::vector<SnapshotInfo>) {}
  virtual void on_snapshot(SnapshotInfo) {}
  virtual void on_snapshot_removed(std::string) {}
};

// Makes, watches, pauses and removes sandboxes.
class Lifecycle {
 public:
  virtual ~Lifecycle() = default;

  // The checks that only this backend can do, before anything is recorded.
  virtual Result<void> check(const api::CreateSandbox& create) const = 0;
  // The same for volumes, where the backend has to ask. Changes nothing; called only when there are some. `create`
  // outlives it. A backend that does not answer is no failure: the create will find out.
  virtual net::awaitable<Result<void>> check_volumes(const api::CreateSandbox&) { co_return Result<void>(); }

  // Returns when execd has answered; a create that fails leaves nothing behind. Code::Conflict: the id exists.
  virtual net::awaitable<Result<Instance>> create(SandboxSpec spec) = 0;
  virtual net::awaitable<Result<Instance>> inspect(std::string id) = 0;  // Code::NotFound
  virtual net::awaitable<Result<std::vector<Instance>>> list() = 0;
  // Tells the observer, which outlives it, until it is cancelled.
  virtual net::awaitable<void> watch(Observer& observer) = 0;
  // Makes watch() look at once whether a backend that is away is back, and tell the observer either way.
  virtual void look_again() {}

  virtual net::awaitable<Result<void>> pause(std::string id) = 0;   // one that is paused: success
  virtual net::awaitable<Result<void>> resume(std::string id) = 0;  // one that runs: success
  // An unknown id is success: expiry, retries and restarts race. Ends a create that is under way.
  virtual net::awaitable<Result<void>> remove(std::string id) = 0;

  // For backends that keep these data with the sandbox, where other servers see them (Instance::expires_at).
  virtual net::awaitable<Result<void>> set_deadline(std::string, Timestamp) { co_return Result<void>(); }
  virtual net::awaitable<Result<void>> patch_metadata(std::string, api::MetadataPatch) { co_return Result<void>(); }

  virtual net::awaitable<Result<ResourceUse>> stats(std::string id) = 0;
};

}  // namespace osb::runtime
