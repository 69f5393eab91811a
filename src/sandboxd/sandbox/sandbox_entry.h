#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "async/descriptor.h"
#include "async/timer.h"
#include "sandboxd/sandbox/sandbox_manager.h"

namespace osb::sandboxd {

// One sandbox in the manager's hands; only its own sources include this.
struct SandboxManager::Entry {
  explicit Entry(const net::any_io_executor& executor)
      : abort(executor), settled(executor), ended(executor), free(executor) {}

  SandboxRecord record;
  std::optional<LiveSandbox> live;
  std::optional<Descriptor> exit_watch;  // a second pidfd
  std::vector<image::LayerStore::Lease> leases;
  bool removing = false;
  Event abort;    // a create should end
  Event settled;  // the create has ended, well or with `error`
  Event ended;    // PID 1 has
  std::optional<Error> error;

  // One operation at a time.
  bool busy = false;
  Notifier free;
  class Guard {
   public:
    explicit Guard(EntryPtr entry) : entry_(std::move(entry)) {}
    Guard(Guard&&) = default;
    Guard& operator=(Guard&&) = delete;
    ~Guard() {
      if (!entry_) return;
      entry_->busy = false;
      entry_->free.notify_one();
    }

   private:
    EntryPtr entry_;
  };
  static net::awaitable<Guard> lock(EntryPtr entry) {
    while (entry->busy) co_await entry->free.wait();
    entry->busy = true;
    co_return Guard(entry);
  }
};

}  // namespace osb::sandboxd
