#include "sandboxd/snapshot/snapshot_store.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <optional>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/id.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "base/time.h"
#include "kernel/copy_tree.h"
#include "kernel/reflink.h"
#include "sandboxd/snapshot/snapshot_record.h"
#include "sandboxd/snapshot/staged_directory.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sandboxd {

namespace {

constexpr const char* kRoot = "root";
constexpr const char* kRecord = "snapshot.json";
constexpr const char* kHidden = "removed";  // its existence says so

Failure failure(Code code, const char* reason, std::string message) {
  Error error(code, std::move(message));
  error.reason = reason;
  return Failure(std::move(error));
}

Failure no_such_snapshot(const std::string& id) {
  return failure(Code::NotFound, "SNAPSHOT::NOT_FOUND", fmt::format("snapshot {}: does not exist", id));
}

Failure too_large(const SnapshotStoreOptions& options) {
  return failure(Code::Exhausted, kSnapshotLimit,
                 fmt::format("no space left for snapshots: all together may take {} MiB and {} files ([disk] "
                             "snapshot_bytes of sandboxd); remove some first",
                             options.max_bytes >> 20, options.max_entries));
}

}  // namespace

struct SnapshotStore::State {
  struct Record {
    SnapshotInfo info;
    bool hidden = false;
  };
  using Withdrawn = std::vector<StagedDirectory::Staged>;  // removed from disk when it goes: not under a lock

  SnapshotStoreOptions options;
  StagedDirectory directory;

  std::mutex removals;       // one at a time, from the look to the disk's word; taken before `mutex`
  mutable std::mutex mutex;  // the event loop takes it too: it is never held while waiting for the disk
  std::map<std::string, Record> records;
  std::set<std::string> in_work;      // ids being captured
  std::multiset<std::string> needed;  // by captures in work
  struct Size {
    std::uint64_t bytes = 0, entries = 0;
  };
  Size claimed;  // by captures in work, once their copies are made

  void after_step(std::string_view step) const {
    if (options.after_step) options.after_step(step);
  }
  const Record* find(const std::string& id) const {  // with the mutex held, as all below
    const auto it = records.find(id);
    return it == records.end() || it->second.hidden ? nullptr : &it->second;
  }
  bool is_needed(const std::string& id) const;
  Result<void> load(const std::string& id);
  Result<void> collect_hidden(Withdrawn& out);  // durable, and so to be destroyed, after directory.sync()
  Result<void> hide(const std::string& id);     // without the mutex

  Result<SnapshotInfo> build(const std::string& id, const SnapshotBase& base, int upper, const FreezeHooks& hooks,
                             CaptureTimes& times, Size& claim_made);  // without the mutex
  Size size() const;                     // of all layers, and of those that captures in work have claimed
  Result<void> claim(const Size& more);  // without the mutex

  Result<kernel::CopiedTree> copy_frozen(int upper, int root, const FreezeHooks& hooks, CaptureTimes& times);
};

// --- records -----------------------------------------------------------------------------------------------------

Result<void> SnapshotStore::State::load(const std::string& id) {
  const auto path = directory.path() / id;
  const auto text = sys::read_text((path / kRecord).string());
  if (!text) return Failure(text.error());
  auto info = decode_snapshot(*text);
  if (!info) return Failure(info.error());
  if (info->id != id) return fail(Code::Internal, "is the record of snapshot " + info->id);
  struct stat st;
  if (::stat((path / kRoot).c_str(), &st) < 0) return sys::from_errno("stat " + (path / kRoot).string(), errno);
  const bool hidden = ::faccessat(AT_FDCWD, (path / kHidden).c_str(), F_OK, 0) == 0;
  records[id] = {std::move(*info), hidden};
  return {};
}

// A record lists all snapshots that it stands on, so those of hidden ones in between need not be asked.
bool SnapshotStore::State::is_needed(const std::string& id) const {
  if (needed.contains(id)) return true;
  return std::ranges::any_of(records, [&](const auto& entry) {
    const auto& below = entry.second.info.base.snapshots;
    return !entry.second.hidden && std::ranges::find(below, id) != below.end();
  });
}

Result<void> SnapshotStore::State::collect_hidden(Withdrawn& out) {
  for (auto it = records.begin(); it != records.end();) {
    if (!it->second.hidden || is_needed(it->first)) {
      ++it;
      continue;
    }
    auto gone = directory.take_out(it->first);
    if (!gone) return Failure(gone.error());
    out.push_back(std::move(*gone));
    it = records.erase(it);
  }
  return {};
}

Result<void> SnapshotStore::State::hide(const std::string& id) {
  const auto opened = sys::open_at(directory.fd(), id, O_RDONLY | O_DIRECTORY);
  if (!opened) return Failure(opened.error());
  if (auto wrote = write_file(opened->get(), kHidden, "", Sync::Now); !wrote) return wrote;
  if (auto synced = sync_directory(opened->get(), (directory.path() / id).string()); !synced) return synced;
  after_step("hidden");
  return {};
}

SnapshotStore::SnapshotStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
SnapshotStore::~SnapshotStore() = default;

Result<std::unique_ptr<SnapshotStore>> SnapshotStore::open(std::filesystem::path path, SnapshotStoreOptions options) {
  auto directory = StagedDirectory::open(path);
  if (!directory) return with_context("snapshots", directory.error());
  auto state = std::make_unique<State>(std::move(options), std::move(*directory));
  const auto names = state->directory.names();
  if (!names) return with_context("snapshots", names.error());
  for (const std::string& name : *names) {
    if (!is_uuid(name)) continue;  // not ours
    if (auto loaded = state->load(name); !loaded) {
      log_error("snapshot cannot be read", {{"snapshot", name}, {"error", loaded.error().message}});
    }
  }
  State::Withdrawn withdrawn;
  auto collected = state->collect_hidden(withdrawn);
  if (collected && !withdrawn.empty()) collected = state->directory.sync();
  if (!collected) return with_context("snapshots", collected.error());
  return std::unique_ptr<SnapshotStore>(new SnapshotStore(std::move(state)));
}

// --- capture -----------------------------------------------------------------------------------------------------

Result<kernel::CopiedTree> SnapshotStore::State::copy_frozen(int upper, int root, const FreezeHooks& hooks,
                                                             CaptureTimes& times) {
  // Sharing blocks needs them on disk: the sync happens before the sandbox is frozen.
  if (kernel::can_clone_files(root).value_or(false) && ::syncfs(upper) < 0) return sys::from_errno("sync upper", errno);

  const Stopwatch frozen;
  if (auto froze = hooks.freeze(); !froze) return with_context("freeze", froze.error());
  struct Thaw {
    const FreezeHooks& hooks;
    bool done = false;
    Result<void> now() {
      done = true;
      return hooks.thaw();
    }
    ~Thaw() {
      if (!done) static_cast<void>(now());  // only when an exception is on its way
    }
  } thaw{hooks};
  after_step("frozen");
  Size left;
  {
    const std::lock_guard lock(mutex);
    const Size taken = size();
    left = {options.max_bytes - std::min(taken.bytes, options.max_bytes),
            options.max_entries - std::min(taken.entries, options.max_entries)};
  }
  auto copied = kernel::copy_tree(
      upper, root,
      {.overlay_upper = true, .threads = options.copy_threads, .max_bytes = left.bytes, .max_entries = left.entries});
  auto thawed = thaw.now();
  times.frozen_ms = frozen.ms();
  if (!copied && copied.error().code == Code::Exhausted) return too_large(options);
  if (!copied) return with_context("copy", copied.error());
  if (!thawed) return with_context("thaw", thawed.error());
  return copied;
}

SnapshotStore::State::Size SnapshotStore::State::size() const {
  Size out = claimed;
  for (const auto& [id, record] : records) {
    out.bytes += record.info.bytes;
    out.entries += record.info.entries;
  }
  return out;
}

// Captures that run at the same time cannot exceed the limits together.
Result<void> SnapshotStore::State::claim(const Size& more) {
  const std::lock_guard lock(mutex);
  const Size taken = size();
  if (taken.bytes + more.bytes > options.max_bytes || taken.entries + more.entries > options.max_entries) {
    return too_large(options);
  }
  claimed.bytes += more.bytes;
  claimed.entries += more.entries;
  return {};
}

Result<SnapshotInfo> SnapshotStore::State::build(const std::string& id, const SnapshotBase& base, int upper,
                                                 const FreezeHooks& hooks, CaptureTimes& times, Size& claim_made) {
  auto staged = directory.stage(0700);
  if (!staged) return Failure(staged.error());
  if (::mkdirat(staged->fd(), kRoot, 0700) < 0) return sys::from_errno("mkdir root", errno);
  const auto root = sys::open_at(staged->fd(), kRoot, O_RDONLY | O_DIRECTORY);
  if (!root) return Failure(root.error());
  after_step("staged");
  const auto copied = copy_frozen(upper, root->get(), hooks, times);
  if (!copied) return Failure(copied.error());
  if (auto room = options.reserve.check(); !room) return Failure(room.error());
  if (auto room = claim({copied->bytes, copied->entries}); !room) return Failure(room.error());
  claim_made = {copied->bytes, copied->entries};
  after_step("copied");

  SnapshotInfo info{id, base, unix_millis() / 1000, copied->entries, copied->bytes};
  if (auto wrote = write_file(staged->fd(), kRecord, encode_snapshot(info), Sync::Later); !wrote) {
    return Failure(wrote.error());
  }
  after_step("recorded");
  // One call instead of an fsync for each of thousands of files. Large ones are mostly on disk already (copy_tree).
  if (::syncfs(root->get()) < 0) return sys::from_errno("sync", errno);
  after_step("synced");
  if (auto published = directory.publish(*staged, id); !published) return Failure(published.error());
  after_step("published");
  return info;
}

Result<SnapshotInfo> SnapshotStore::capture(const std::string& id, const SnapshotBase& base, int upper,
                                            const FreezeHooks& hooks, CaptureTimes* times) {
  const Stopwatch total;
  CaptureTimes measured;
  if (!is_uuid(id)) return fail(Code::InvalidRequest, fmt::format("snapshot id {}: expected a UUID", id));
  if (auto room = state_->options.reserve.check(); !room) return with_context("snapshot " + id, room.error());
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->records.contains(id) || state_->in_work.contains(id)) {
      return fail(Code::Conflict, fmt::format("snapshot {}: exists", id));
    }
    for (const std::string& below : base.snapshots) {
      if (!state_->records.contains(below)) return no_such_snapshot(below);  // a hidden one is as good
    }
    state_->in_work.insert(id);
    state_->needed.insert(base.snapshots.begin(), base.snapshots.end());
  }
  State::Size claimed;
  auto built = state_->build(id, base, upper, hooks, measured, claimed);
  {
    const std::lock_guard lock(state_->mutex);
    state_->claimed.bytes -= claimed.bytes;
    state_->claimed.entries -= claimed.entries;
    state_->in_work.erase(id);
    for (const std::string& below : base.snapshots) state_->needed.erase(state_->needed.find(below));
    if (built) state_->records[id] = {*built, false};
  }
  measured.total_ms = total.ms();
  if (times != nullptr) *times = measured;
  if (!built) return with_context("snapshot " + id, built.error());
  return built;
}

// --- the rest ----------------------------------------------------------------------------------------------------

std::vector<SnapshotInfo> SnapshotStore::list() const {
  std::vector<SnapshotInfo> out;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [id, record] : state_->records) {
      if (!record.hidden) out.push_back(record.info);
    }
  }
  std::ranges::sort(out, {}, [](const SnapshotInfo& info) { return std::tie(info.created, info.id); });
  return out;
}

Result<SnapshotInfo> SnapshotStore::get(const std::string& id) const {
  const std::lock_guard lock(state_->mutex);
  const State::Record* const record = state_->find(id);
  if (record == nullptr) return no_such_snapshot(id);
  return record->info;
}

Result<std::vector<std::filesystem::path>> SnapshotStore::layers(const std::string& id) const {
  const std::lock_guard lock(state_->mutex);
  const State::Record* const record = state_->find(id);
  if (record == nullptr) return no_such_snapshot(id);
  std::vector<std::filesystem::path> out{state_->directory.path() / id / kRoot};
  const auto& below = record->info.base.snapshots;
  for (auto it = below.rbegin(); it != below.rend(); ++it) {
    if (!state_->records.contains(*it)) return with_context("snapshot " + id, no_such_snapshot(*it).error());
    out.push_back(state_->directory.path() / *it / kRoot);
  }
  return out;
}

Result<void> SnapshotStore::remove(const std::string& id, std::size_t sandboxes) {
  State& s = *state_;
  State::Withdrawn withdrawn;  // outlives the locks: its removal takes its time
  // NotFound must be reliable, so a caller waits for a removal that might still fail.
  const std::lock_guard removal(s.removals);
  bool hide = false;
  {
    const std::lock_guard lock(s.mutex);
    if (s.find(id) == nullptr) return no_such_snapshot(id);
    if (sandboxes > 0 || s.needed.contains(id)) {
      return failure(Code::Conflict, "SNAPSHOT::DELETE_CONFLICT",
                     fmt::format("snapshot {}: a sandbox made from it exists; delete that first", id));
    }
    hide = s.is_needed(id);
    if (hide) {
      s.records[id].hidden = true;
    } else {
      auto gone = s.directory.take_out(id);
      if (!gone) return Failure(gone.error());
      withdrawn.push_back(std::move(*gone));
      s.records.erase(id);
    }
  }
  if (hide) {
    auto hidden = s.hide(id);
    if (hidden) return hidden;
    const std::lock_guard lock(s.mutex);
    s.records[id].hidden = false;
    return hidden;
  }
  s.after_step("withdrawn");
  // Hidden snapshots that only this one needed. A failure here is retried with the next removal, and by open().
  Result<void> collected;
  {
    const std::lock_guard lock(s.mutex);
    collected = s.collect_hidden(withdrawn);
  }
  if (!collected) log_warn("hidden snapshots stay", {{"error", collected.error().message}});
  s.after_step("collected");
  return s.directory.sync();
}

std::set<image::Digest> SnapshotStore::image_layers() const {
  const std::lock_guard lock(state_->mutex);
  std::set<image::Digest> out;
  for (const auto& [id, record] : state_->records) {
    out.insert(record.info.base.diff_ids.begin(), record.info.base.diff_ids.end());
  }
  return out;
}

std::uint64_t SnapshotStore::bytes() const {
  const std::lock_guard lock(state_->mutex);
  std::uint64_t out = 0;
  for (const auto& [id, record] : state_->records) out += record.info.bytes;
  return out;
}

}  // namespace osb::sandboxd
