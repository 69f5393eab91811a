#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/native.h"
#include "async/blocking_pool.h"
#include "async/task_group.h"
#include "http/body.h"
#include "http/client.h"
#include "sandboxd/image/image_service.h"
#include "sandboxd/sandbox/event_feed.h"
#include "sandboxd/sandbox/file_watch.h"
#include "sandboxd/sandbox/log_file.h"
#include "sandboxd/sandbox/sandbox_builder.h"
#include "sandboxd/snapshot/snapshot_store.h"

namespace osb::sandboxd {

// All sandboxes of this host and what may be done to them. Lives on one loop; blocking work goes to the pool. What it
// is given outlives it.
//
// Operations on one sandbox happen one after the other. A create goes on when its caller leaves, a remove ends a create
// that is under way.
class SandboxManager {
 public:
  SandboxManager(net::any_io_executor executor, BlockingPool& pool, SandboxBuilder& builder, ImageService& images,
                 SnapshotStore& snapshots);
  ~SandboxManager();

  // Before anything else: finds the sandboxes of an earlier daemon, finishes what it left half-done, and removes what
  // nobody owns. Blocks: there is nobody to serve yet. The slot pool is started by the caller afterwards.
  Result<void> recover();
  // Watches what recover() found.
  void start();
  // Sandboxes go on living; operations under way are waited for.
  net::awaitable<void> close();

  // Returns when execd has answered. Whatever fails, nothing is left of the sandbox. Code::Conflict: the id exists.
  net::awaitable<Result<api::native::Sandbox>> create(api::native::CreateSandbox spec);
  Result<api::native::Sandbox> inspect(const std::string& id) const;  // Code::NotFound
  std::vector<api::native::Sandbox> list() const;
  // Returns when all its processes have ended and its directory is out of the way. Code::NotFound.
  net::awaitable<Result<void>> remove(std::string id);
  net::awaitable<Result<void>> pause(std::string id);   // one that is paused: success
  net::awaitable<Result<void>> resume(std::string id);  // one that runs: success
  net::awaitable<Result<api::native::Stats>> stats(std::string id);
  // The end of what the entrypoint has written, `limit` bytes of the log; with `times` each line has its own in front.
  net::awaitable<Result<std::string>> logs(std::string id, std::size_t limit, bool times);
  // The log with times from a place on, as something that writes it into a body. With `follow` it goes on until the
  // sandbox has ended; one that is removed, or a daemon that ends, breaks the body off. A reader that is slower than
  // the log is allowed to grow misses lines, and finds one that says so.
  using LogProducer = std::move_only_function<net::awaitable<Result<void>>(http::BodyWriter&)>;
  net::awaitable<Result<LogProducer>> open_logs(std::string id, LogsFrom from, bool follow);
  // A connected socket to a port inside, whatever the network mode. In sandboxes of an OCI runtime only ports that
  // listen on the sandbox's address are reached.
  net::awaitable<Result<UniqueFd>> connect(std::string id, std::uint16_t port);

  net::awaitable<Result<api::native::Snapshot>> snapshot(std::string id, std::string snapshot_id);
  std::vector<api::native::Snapshot> list_snapshots() const;
  Result<api::native::Snapshot> inspect_snapshot(const std::string& id) const;
  net::awaitable<Result<void>> remove_snapshot(std::string id);  // Code::Conflict while a sandbox stands on it
  // An OCI archive of it into `body`. Code::Unsupported for the host's image: its /usr is not part of the snapshot.
  net::awaitable<Result<void>> export_snapshot(std::string id, http::BodyWriter& body, ImageService::Turn turn);
  // Says beforehand what is wrong, while there can still be an answer. Code::Exhausted: too many archives on their way.
  net::awaitable<Result<ImageService::Turn>> turn_to_export_snapshot(std::string id);
  // The snapshot as an image: its own layers on top of its image's.
  Result<SandboxBase> snapshot_base(const std::string& id) const;

  std::shared_ptr<EventFeed::Watcher> watch() { return feed_.watch(); }
  // Ends the streams of those who watch, which would otherwise hold a stopping server back.
  void end_watching() {
    feed_.close();
    log_watch_.close();
  }

 private:
  struct Entry;
  using EntryPtr = std::shared_ptr<Entry>;

  net::awaitable<void> run_create(EntryPtr entry, std::optional<api::native::RegistryLogin> login);
  net::awaitable<Result<void>> start_sandbox(EntryPtr entry, std::optional<api::native::RegistryLogin> login);
  net::awaitable<Result<SandboxBase>> find_base(EntryPtr entry, std::optional<api::native::RegistryLogin> login);
  net::awaitable<Result<void>> wait_ready(EntryPtr entry);
  // On a connection of its own. `status` outlives the call.
  net::awaitable<Result<http::ClientResponse>> ask_execd(const api::native::Sandbox& status, std::string method,
                                                         std::string target);
  net::awaitable<Result<void>> ping(EntryPtr entry);
  net::awaitable<void> end_idle_connections(EntryPtr entry);
  net::awaitable<Result<void>> wait_listening(EntryPtr entry);
  net::awaitable<void> watch_exit(EntryPtr entry);
  net::awaitable<void> tear_down(EntryPtr entry);
  api::native::Exit how_it_ended(const Entry& entry) const;
  void record_exit(Entry& entry, const api::native::Exit& exit);
  struct OpenLog;
  net::awaitable<Result<void>> send_log(std::shared_ptr<OpenLog> log, http::BodyWriter& out);
  void publish(const std::string& id, const std::optional<Error>& failure = std::nullopt) {
    feed_.publish(id, failure);
    log_watch_.poke(id);
  }
  void set_state(Entry& entry, api::native::State state, std::string message = "");
  Result<EntryPtr> find(const std::string& id) const;
  void recover_one(const std::string& id, std::vector<SandboxRecord>& unfinished);
  void finish(SandboxRecord record);
  void empty_trash_later();
  void prepare_later();
  net::awaitable<void> bound_logs();

  net::any_io_executor executor_;
  BlockingPool& pool_;
  SandboxBuilder& builder_;
  ImageService& images_;
  SnapshotStore& snapshots_;
  http::Client client_;
  EventFeed feed_;
  FileWatch log_watch_;
  TaskGroup tasks_;
  std::map<std::string, EntryPtr> entries_;
  std::map<std::string, std::vector<image::LayerStore::Lease>> snapshot_leases_;  // what snapshots stand on
  bool emptying_trash_ = false, empty_again_ = false;
  bool preparing_ = false;
  unsigned creating_ = 0;
};

}  // namespace osb::sandboxd
