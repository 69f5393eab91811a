#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/lifecycle_snapshot.h"
#include "server/access/principal.h"
#include "server/service/admission.h"
#include "server/service/sandbox_states.h"
#include "server/service/state_waiters.h"

namespace osb::server {

// Snapshots of sandboxes: records, the work in the backend, and what an earlier process left half done. Its arguments
// outlive it.
class SnapshotService {
 public:
  SnapshotService(const ServiceContext& context, const SandboxStates& states);

  // `who` belongs to the request, which waits.
  net::awaitable<Result<SnapshotPtr>> create(std::string sandbox_id, std::string name, const Principal& who);
  Result<SnapshotPtr> get(std::string_view id, const Scope& scope) const;
  net::awaitable<Result<void>> remove(std::string id, Scope scope);
  // Until it is no longer being made; nullptr when it is gone.
  net::awaitable<SnapshotPtr> wait(SnapshotPtr snapshot, std::chrono::nanoseconds limit);
  // The snapshot as an OCI archive.
  net::awaitable<Result<std::shared_ptr<http::BodySource>>> export_archive(std::string id, Scope scope);

  // The catalogue of a backend that keeps it: other servers make and remove snapshots too.
  void note_all(std::vector<runtime::SnapshotInfo> all);
  void note(runtime::SnapshotInfo info);
  void note_removed(std::string id);

  // Notes the snapshots that an earlier process left half done.
  void start();
  // Ends them, as soon as the backend is heard.
  void recover();
  // Wakes those who wait.
  void notify_all() { waiters_.notify_all(); }

 private:
  // Of a backend's catalogue. Without an info the snapshot is gone.
  struct News {
    std::string id;
    std::optional<runtime::SnapshotInfo> info;
  };

  net::awaitable<void> run(SnapshotPtr accepted);
  void follow(News news);
  net::awaitable<void> follow_all();
  net::awaitable<Result<void>> follow_one(News news);
  net::awaitable<Result<void>> finish_removal(std::string id);
  net::awaitable<void> recover(SnapshotPtr snapshot);
  net::awaitable<Result<SnapshotPtr>> end_create(std::string id, bool ready, std::string reason, std::string message);

  const ServiceContext& context_;
  const SandboxStates& states_;
  runtime::Snapshots* const backend_;  // nullptr: the backend has none
  StateWaiters waiters_;
  Admission slots_;
  std::vector<std::string> unfinished_;  // of an earlier process
  std::set<std::string> making_;         // by this process, which tells their end itself
  std::deque<News> news_;                // in order
  bool following_ = false;
};

}  // namespace osb::server
