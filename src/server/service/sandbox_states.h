#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "server/diagnostics/event_history.h"
#include "server/service/creation.h"
#include "server/service/deadline_queue.h"
#include "server/service/ended_sandboxes.h"
#include "server/service/service_context.h"
#include "server/service/state_waiters.h"

namespace osb::server {

// The states of sandboxes: turns what the backend says into what the records say, and wakes those who wait for it.
// Its arguments outlive it.
class SandboxStates {
 public:
  SandboxStates(const ServiceContext& context, const Creations& creations, DeadlineQueue& deadlines);

  // NotFound with the backend's code, and how it ended if known. A sandbox out of scope does not exist.
  Result<SandboxPtr> get(std::string_view id, const Scope& scope) const;
  Failure not_found(std::string_view id, const Scope& scope) const;
  // The backend's last report, with at least id and token; nullptr for an unknown one.
  const runtime::Instance* instance(std::string_view id) const;
  const EventHistory& events() const { return events_; }
  EndedSandboxes& endings() { return endings_; }

  // A record of an earlier process, before the backend is heard.
  void restore(const SandboxRecord& record);
  // A record that is new; its history begins `at`.
  void add(const SandboxRecord& record, Timestamp at);
  // The backend's report about one sandbox. Ids without a record are ignored.
  void apply(const runtime::Instance& instance);
  // The backend no longer has it.
  void note_gone(const std::string& id);
  void set(const SandboxPtr& record, std::string_view state, std::string reason, std::string message);
  // Called after each change of a status.
  void on_change(std::function<void(const SandboxRecord&)> listener) { on_change_ = std::move(listener); }
  // Begins the time that a sandbox which has ended stays visible. Others are ignored.
  void note_ended(const SandboxRecord& record);
  // Nothing is left of it.
  void forget(const std::string& id);

  // A pause or resume is under way: reports of the state before it are not believed.
  class Transition {
   public:
    Transition(SandboxStates& states, std::string id) : states_(states), id_(std::move(id)) {
      states_.in_transition_.insert(id_);
    }
    ~Transition() { states_.in_transition_.erase(id_); }
    Transition(const Transition&) = delete;
    Transition& operator=(const Transition&) = delete;

   private:
    SandboxStates& states_;
    const std::string id_;
  };
  bool is_in_transition(const std::string& id) const { return in_transition_.contains(id); }

  // Wakes those who wait for this id, or for any.
  void notify(const std::string& id) { waiters_.notify(id); }
  void notify_all() { waiters_.notify_all(); }
  // Until the record differs from `seen` in its status, is gone (nullptr), or the time is up or the service closes (the
  // same record).
  net::awaitable<SandboxPtr> wait_change(SandboxPtr seen, std::chrono::nanoseconds limit);
  // Until it is no longer Pending.
  net::awaitable<SandboxPtr> wait_settled(SandboxPtr record, std::chrono::nanoseconds limit);
  // Until its record is gone. False: cancelled.
  net::awaitable<bool> wait_removed(std::string id);

 private:
  runtime::Instance& known(const SandboxRecord& record);
  net::awaitable<void> follow_deadline(std::string id, Timestamp until);
  void apply_end(const SandboxPtr& record, const runtime::Instance& instance);

  const ServiceContext& context_;
  const Creations& creations_;
  DeadlineQueue& deadlines_;
  StateWaiters waiters_;
  EventHistory events_;
  EndedSandboxes endings_;
  std::unordered_map<std::string, runtime::Instance> instances_;
  std::unordered_set<std::string> in_transition_;
  std::function<void(const SandboxRecord&)> on_change_;
};

}  // namespace osb::server
