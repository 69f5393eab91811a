#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/native.h"
#include "async/descriptor.h"
#include "async/timer.h"
#include "image/layer_store.h"
#include "sandboxd/sandbox/event_feed.h"
#include "sandboxd/sandbox/host_parts.h"
#include "sandboxd/sandbox/sandbox_record.h"

namespace osb::sandboxd {

// One sandbox of the table. One loop.
struct SandboxEntry {
  explicit SandboxEntry(const net::any_io_executor& executor) : abort(executor), settled(executor), free(executor) {}

  const std::string& id() const { return record.spec.id; }

  SandboxRecord record;
  std::optional<LiveSandbox> live;
  std::optional<Descriptor> exit_watch;  // a second pidfd
  std::vector<image::LayerStore::Lease> leases;
  bool removing = false;
  bool counted = false;   // in SandboxTable::present()
  bool unwanted = false;  // a remove waits for the create's end
  Event abort;            // the create should end
  Event settled;          // the create has ended, well or with `error`
  std::optional<Error> error;

  // One operation at a time.
  bool busy = false;
  Notifier free;
};
using EntryPtr = std::shared_ptr<SandboxEntry>;

// The right to operate on a sandbox. It ends with the object.
class EntryGuard {
 public:
  // Waits until no other operation is under way.
  static net::awaitable<EntryGuard> lock(EntryPtr entry);
  // Of an entry that no other coroutine knows yet: it is marked busy.
  explicit EntryGuard(EntryPtr entry) : entry_(std::move(entry)) { entry_->busy = true; }
  EntryGuard(EntryGuard&&) = default;
  EntryGuard& operator=(EntryGuard&&) = delete;
  ~EntryGuard() {
    if (!entry_) return;
    entry_->busy = false;
    entry_->free.notify_one();
  }

 private:
  EntryPtr entry_;
};

// The sandboxes of this host by id, and the watchers of their changes. One loop.
class SandboxTable {
 public:
  explicit SandboxTable(net::any_io_executor executor) : executor_(executor), feed_(executor) {}

  EntryPtr make_entry() const { return std::make_shared<SandboxEntry>(executor_); }
  // Its record has an id that is not in the table.
  void add(EntryPtr entry);
  // Watchers are told why, if it could not be created.
  void remove(const SandboxEntry& entry, const std::optional<Error>& failure = std::nullopt);

  Result<EntryPtr> find(const std::string& id) const;  // Code::NotFound
  bool contains(const std::string& id) const { return entries_.contains(id); }
  // False: it was removed; its id may be in use again.
  bool holds(const SandboxEntry& entry) const;
  const std::map<std::string, EntryPtr>& entries() const { return entries_; }
  std::size_t present() const { return present_; }  // those that have not ended
  std::vector<std::string> living() const;          // ids of those that hold something of the host

  void set_state(SandboxEntry& entry, api::native::State state, std::string message = "");

  std::shared_ptr<EventFeed::Watcher> watch() { return feed_.watch(); }
  // Called with the id after each change.
  void on_change(std::function<void(const std::string& id)> changed) { changed_ = std::move(changed); }
  void end_watching() { feed_.close(); }

 private:
  void count(SandboxEntry& entry);
  void publish(const std::string& id, const std::optional<Error>& failure = std::nullopt);

  net::any_io_executor executor_;
  std::map<std::string, EntryPtr> entries_;
  std::size_t present_ = 0;
  EventFeed feed_;
  std::function<void(const std::string&)> changed_;
};

}  // namespace osb::sandboxd
