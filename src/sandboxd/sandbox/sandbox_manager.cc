#include "sandboxd/sandbox/sandbox_manager.h"

#include <algorithm>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/json/serialize.hpp>

#include "async/descriptor.h"
#include "base/id.h"
#include "base/log.h"
#include "sandboxd/network/connect.h"
#include "sandboxd/sandbox/exit_reason.h"
#include "sandboxd/sandbox/image_config_text.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

using api::native::CreateSandbox;
using api::native::RegistryLogin;
using api::native::Sandbox;
using api::native::State;
using namespace net::experimental::awaitable_operators;

namespace {

// execd answers within milliseconds; a host that is this slow is broken.
constexpr std::chrono::seconds kReadyLimit(60);
constexpr std::chrono::seconds kConnectLimit(10);

Timestamp now() { return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()); }

Failure unknown(const std::string& id) {
  Error error(Code::NotFound, "sandbox " + id + " does not exist");
  error.reason = "SANDBOX::NOT_FOUND";
  return Failure(std::move(error));
}

Error with_reason(Error error, const char* reason) {
  if (error.reason.empty()) error.reason = reason;
  return error;
}

// The end of a file that somebody else may be writing to.
Result<std::string> read_tail(const std::string& path, std::size_t limit) {
  auto file = sys::open_at(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW);
  if (!file) return Failure(file.error());
  struct stat info{};
  if (::fstat(file->get(), &info) < 0) return sys::from_errno("stat " + path, errno);
  const off_t begin = std::max<off_t>(0, info.st_size - static_cast<off_t>(limit));
  std::string text(static_cast<std::size_t>(info.st_size - begin), '\0');
  const ssize_t size = ::pread(file->get(), text.data(), text.size(), begin);
  if (size < 0) return sys::from_errno("read " + path, errno);
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::string percent(const std::map<image::Digest, image::PullProgress>& layers) {
  std::uint64_t done = 0, total = 0;
  for (const auto& [layer, progress] : layers) {
    done += progress.stage == image::PullProgress::Stage::Downloading ? progress.bytes : progress.total;
    total += progress.total;
  }
  return "pulling " + std::to_string(total == 0 ? 0 : done * 100 / total) + "%";
}

}  // namespace

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

SandboxManager::SandboxManager(net::any_io_executor executor, BlockingPool& pool, SandboxBuilder& builder,
                               ImageService& images, SnapshotStore& snapshots)
    : executor_(executor),
      pool_(pool),
      builder_(builder),
      images_(images),
      snapshots_(snapshots),
      client_(http::make_plain_connector()),
      feed_(executor),
      tasks_(executor) {}

SandboxManager::~SandboxManager() = default;

net::awaitable<void> SandboxManager::close() {
  for (const auto& [id, entry] : entries_) entry->abort.set();
  for (;;) {
    const auto busy = std::ranges::find_if(entries_, [](const auto& each) { return each.second->busy; });
    if (busy == entries_.end()) break;
    const EntryPtr entry = busy->second;
    const auto guard = co_await Entry::lock(entry);
  }
  co_await tasks_.close();
}

Result<SandboxManager::EntryPtr> SandboxManager::find(const std::string& id) const {
  const auto entry = entries_.find(id);
  if (entry == entries_.end()) return unknown(id);
  return entry->second;
}

void SandboxManager::set_state(Entry& entry, State state, std::string message) {
  entry.record.status.state = state;
  entry.record.status.message = std::move(message);
  feed_.publish(entry.record.spec.id);
}

// ---- create

net::awaitable<Result<Sandbox>> SandboxManager::create(CreateSandbox spec) {
  if (entries_.contains(spec.id)) co_return fail(Code::Conflict, "sandbox " + spec.id + " exists");
  if (!spec.runtime.empty()) {
    co_return fail(Code::Unsupported, "runtime '" + spec.runtime + "' is not configured on this host");
  }
  auto entry = std::make_shared<Entry>(executor_);
  auto login = std::exchange(spec.login, std::nullopt);
  Sandbox& status = entry->record.status;
  status.id = spec.id;
  status.image = spec.image;
  status.snapshot = spec.snapshot;
  status.created_at = now();
  status.network = spec.network;
  status.execd_token = new_hex_id() + new_hex_id();
  status.labels = spec.labels;
  status.message = "starting";
  entry->record.spec = std::move(spec);
  entry->busy = true;
  entries_.emplace(status.id, entry);
  feed_.publish(status.id);
  tasks_.spawn("create sandbox", run_create(entry, std::move(login)));
  if (!co_await entry->settled.wait()) co_return fail(Code::Cancelled, "sandboxd is ending");
  if (entry->error) co_return Failure(*entry->error);
  co_return entry->record.status;
}

net::awaitable<void> SandboxManager::run_create(EntryPtr entry, std::optional<RegistryLogin> login) {
  const Entry::Guard guard(entry);
  const auto begin = std::chrono::steady_clock::now();
  const std::string id = entry->record.spec.id;
  auto started = co_await start_sandbox(entry, std::move(login));
  const auto ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  if (started) {
    log_info("sandbox created", {{"id", id}, {"ms", ms}, {"address", entry->record.status.address}});
    set_state(*entry, State::Running);
  } else {
    log_warn("sandbox not created", {{"id", id}, {"ms", ms}, {"error", started.error().message}});
    entry->error = started.error();
    entry->removing = true;
    if (entry->live) {
      co_await tear_down(entry);
      co_await pool_.run([&] { builder_.erase(entry->record); });
      empty_trash_later();
    }
    entries_.erase(id);
    feed_.publish(id);
  }
  entry->settled.set();
}

net::awaitable<Result<void>> SandboxManager::start_sandbox(EntryPtr entry, std::optional<RegistryLogin> login) {
  auto base = co_await find_base(entry, std::move(login));
  if (!base) co_return Failure(with_reason(base.error(), "NATIVE::SANDBOX_IMAGE_PULL_FAILED"));
  if (entry->abort.is_set()) co_return fail(Code::Cancelled, "removed while it was being created");
  SandboxRecord& record = entry->record;
  record.image_config = encode_image_config(base->image.config);
  for (const auto& layer : base->image.layers) record.layers.insert(record.layers.begin(), layer.diff_id());
  entry->leases = base->image.layers;
  set_state(*entry, State::Creating, "starting");
  auto live = co_await pool_.run([&] { return builder_.build(record, *base); });
  if (!live) co_return Failure(with_reason(live.error(), "NATIVE::SANDBOX_START_FAILED"));
  entry->live = std::move(*live);
  co_return co_await wait_ready(entry);
}

net::awaitable<Result<SandboxBase>> SandboxManager::find_base(EntryPtr entry, std::optional<RegistryLogin> login) {
  const CreateSandbox& spec = entry->record.spec;
  if (!spec.snapshot.empty()) {
    auto base = snapshot_base(spec.snapshot);
    if (!base) co_return base;
    auto info = snapshots_.get(spec.snapshot);
    if (!info) co_return Failure(info.error());
    entry->record.status.image = info->base.image;
    entry->record.snapshots = info->base.snapshots;
    entry->record.snapshots.push_back(spec.snapshot);
    co_return base;
  }
  RegistryAuth auth;
  if (login) auth = image::Credentials{login->username, login->password};
  const PullPolicy policy = spec.pull == api::native::PullPolicy::Always  ? PullPolicy::Always
                            : spec.pull == api::native::PullPolicy::Never ? PullPolicy::Never
                                                                          : PullPolicy::Missing;
  std::map<image::Digest, image::PullProgress> layers;
  const auto progress = [&](const image::PullProgress& each) {
    layers[each.layer] = each;
    std::string text = percent(layers);
    if (text != entry->record.status.message) set_state(*entry, State::Creating, std::move(text));
  };
  auto outcome = co_await (images_.ensure(spec.image, policy, std::move(auth), progress) || entry->abort.wait());
  if (outcome.index() == 1) co_return fail(Code::Cancelled, "removed while its image was being fetched");
  auto& image = std::get<0>(outcome);
  if (!image) co_return Failure(image.error());
  // Nothing runs by default: a shell without input would end the sandbox at once.
  if (image->kind == ResolvedImage::Kind::Host) image->config.cmd.clear();
  co_return SandboxBase{std::move(*image), {}};
}

net::awaitable<Result<void>> SandboxManager::wait_ready(EntryPtr entry) {
  auto watched = Descriptor::open(executor_, UniqueFd(::fcntl(entry->live->pidfd.get(), F_DUPFD_CLOEXEC, 3)));
  if (!watched) co_return Failure(watched.error());
  entry->exit_watch.emplace(std::move(*watched));
  // When execd ends before it answers, its socket ends with it: the ping fails at once.
  auto answered = co_await with_timeout(ping(entry), kReadyLimit);
  // An entrypoint may be faster than our question: then the sandbox has lived, and ends the usual way.
  const bool over = !answered && read_exit_record(builder_.run_file(entry->record.spec.id, "exit.json"));
  if (!answered && !over) {
    if (entry->abort.is_set()) co_return fail(Code::Cancelled, "removed while it was being created");
    const auto log = read_tail(builder_.run_file(entry->record.spec.id, "execd.log"), 2000);
    Error error(Code::Internal, "execd did not answer: " + answered.error().message +
                                    (log && !log->empty() ? "; it said: " + *log : ""));
    co_return Failure(with_reason(std::move(error), "NATIVE::SANDBOX_EXECD_START_FAILED"));
  }
  tasks_.spawn("watch sandbox", watch_exit(entry));
  co_return Result<void>();
}

net::awaitable<Result<void>> SandboxManager::ping(EntryPtr entry) {
  http::ClientRequest request;
  request.target = "/ping";
  request.headers.set("X-EXECD-ACCESS-TOKEN", entry->record.status.execd_token);
  request.headers.set("Connection", "close");
  auto response = co_await client_.send("unix:" + builder_.socket(entry->record.spec.id), std::move(request));
  if (!response) co_return Failure(response.error());
  if (response->status != 200) co_return fail(Code::Internal, "status " + std::to_string(response->status));
  co_return Result<void>();
}

// ---- end

net::awaitable<void> SandboxManager::watch_exit(EntryPtr entry) {
  if (!co_await entry->exit_watch->wait_readable()) co_return;
  const Entry::Guard guard = co_await Entry::lock(entry);
  entry->ended.set();
  if (entry->removing || !entry->live) co_return;
  const api::native::Exit exit = how_it_ended(*entry);
  co_await tear_down(entry);
  record_exit(*entry, exit);
}

api::native::Exit SandboxManager::how_it_ended(const Entry& entry) const {
  std::optional<sys::ExitStatus> process;
  bool oom = false;
  if (entry.live && entry.live->pidfd.get() >= 0) {
    siginfo_t info{};
    if (::waitid(P_PIDFD, static_cast<id_t>(entry.live->pidfd.get()), &info, WEXITED | WNOHANG) == 0 &&
        info.si_pid != 0) {
      process = info.si_code == CLD_EXITED ? sys::ExitStatus{info.si_status, 0} : sys::ExitStatus{0, info.si_status};
    } else {
      process = kernel::exit_of(entry.live->pidfd.get());
    }
  }
  if (entry.live && entry.live->cgroup) oom = entry.live->cgroup->oom_kills().value_or(0) > 0;
  return describe_exit(read_exit_record(builder_.run_file(entry.record.spec.id, "exit.json")), process, oom);
}

void SandboxManager::record_exit(Entry& entry, const api::native::Exit& exit) {
  Sandbox& status = entry.record.status;
  status.exit = exit;
  status.reason = exit_reason(exit);
  status.ended_at = now();
  status.pid = 0;
  log_info("sandbox ended", {{"id", status.id}, {"reason", status.reason}, {"code", exit.code}});
  set_state(entry, State::Exited, exit_message(exit));
  if (auto saved = save_record(builder_.directory(status.id), entry.record); !saved) {
    log_error("record not written", {{"id", status.id}, {"error", saved.error().message}});
  }
}

net::awaitable<void> SandboxManager::tear_down(EntryPtr entry) {
  LiveSandbox live = std::move(*entry->live);
  entry->live.reset();
  co_await pool_.run([&] { builder_.tear_down(entry->record, std::move(live)); });
  entry->leases.clear();
}

net::awaitable<Result<void>> SandboxManager::remove(std::string id) {
  auto found = find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  entry->abort.set();
  // A create that waits for execd: its end comes at once this way.
  if (entry->record.status.state == State::Creating && entry->live && entry->live->cgroup) {
    (void)entry->live->cgroup->kill();
  }
  const Entry::Guard guard = co_await Entry::lock(entry);
  if (!entries_.contains(id)) co_return Result<void>();  // the create has cleaned up, or another remove
  const auto begin = std::chrono::steady_clock::now();
  entry->removing = true;
  entry->record.removing = true;
  set_state(*entry, State::Removing);
  co_await pool_.run([&] {
    // So that a crash in the middle does not bring it back. When it cannot be written, the record that is there says
    // that it lives, and recovery finds it dead.
    (void)save_record(builder_.directory(id), entry->record);
    if (entry->live) {
      builder_.tear_down(entry->record, std::move(*entry->live));
      entry->live.reset();
    }
    builder_.erase(entry->record);
  });
  entry->leases.clear();
  entries_.erase(id);
  feed_.publish(id);
  empty_trash_later();
  const auto ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  log_info("sandbox removed", {{"id", id}, {"ms", ms}});
  co_return Result<void>();
}

void SandboxManager::empty_trash_later() {
  empty_again_ = true;
  if (emptying_trash_) return;
  emptying_trash_ = true;
  tasks_.spawn("empty trash", [](SandboxManager& self) -> net::awaitable<void> {
    while (std::exchange(self.empty_again_, false)) {
      co_await self.pool_.run([&] { self.builder_.empty_trash(); });
    }
    self.emptying_trash_ = false;
  }(*this));
}

// ---- the rest of a life

Result<Sandbox> SandboxManager::inspect(const std::string& id) const {
  auto entry = find(id);
  if (!entry) return Failure(entry.error());
  return (*entry)->record.status;
}

std::vector<Sandbox> SandboxManager::list() const {
  std::vector<Sandbox> out;
  for (const auto& [id, entry] : entries_) out.push_back(entry->record.status);
  return out;
}

net::awaitable<Result<void>> SandboxManager::pause(std::string id) {
  auto found = find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  const Entry::Guard guard = co_await Entry::lock(entry);
  if (entry->record.status.state == State::Paused) co_return Result<void>();
  if (entry->record.status.state != State::Running || !entry->live) {
    co_return fail(Code::Conflict, "sandbox " + id + " is " + std::string(to_string(entry->record.status.state)) +
                                       ", only a running one can be paused");
  }
  auto frozen = co_await pool_.run([&] { return entry->live->cgroup->freeze(true); });
  if (!frozen) co_return with_context("pause sandbox " + id, frozen.error());
  set_state(*entry, State::Paused);
  co_return Result<void>();
}

net::awaitable<Result<void>> SandboxManager::resume(std::string id) {
  auto found = find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  const Entry::Guard guard = co_await Entry::lock(entry);
  if (entry->record.status.state == State::Running) co_return Result<void>();
  if (entry->record.status.state != State::Paused || !entry->live) {
    co_return fail(Code::Conflict, "sandbox " + id + " is " + std::string(to_string(entry->record.status.state)) +
                                       ", only a paused one can be resumed");
  }
  auto thawed = co_await pool_.run([&] { return entry->live->cgroup->freeze(false); });
  if (!thawed) co_return with_context("resume sandbox " + id, thawed.error());
  set_state(*entry, State::Running);
  co_return Result<void>();
}

net::awaitable<Result<api::native::Stats>> SandboxManager::stats(std::string id) {
  auto found = find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  const Entry::Guard guard = co_await Entry::lock(entry);
  if (!entry->live || !entry->live->cgroup) co_return fail(Code::Conflict, "sandbox " + id + " is not running");
  auto usage = co_await pool_.run([&] { return entry->live->cgroup->usage(); });
  if (!usage) co_return Failure(usage.error());
  api::native::Stats out;
  out.cpu_usec = usage->cpu_usec;
  out.memory_bytes = usage->memory_bytes.value_or(0);
  out.memory_peak_bytes = usage->memory_peak_bytes.value_or(0);
  out.memory_limit_bytes = usage->memory_limit_bytes;
  out.pids = usage->pids.value_or(0);
  out.io_read_bytes = usage->io_read_bytes.value_or(0);
  out.io_write_bytes = usage->io_write_bytes.value_or(0);
  out.oom_kills = usage->oom_kills;
  co_return out;
}

net::awaitable<Result<std::string>> SandboxManager::logs(std::string id, std::size_t limit) {
  auto found = find(id);
  if (!found) co_return Failure(found.error());
  const std::string path = builder_.run_file(id, "entrypoint.log");
  co_return co_await pool_.run([&] { return read_tail(path, limit); });
}

net::awaitable<Result<UniqueFd>> SandboxManager::connect(std::string id, std::uint16_t port) {
  auto found = find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  if (entry->record.status.state == State::Paused) co_return fail(Code::Conflict, "sandbox " + id + " is paused");
  if (!entry->live || !entry->live->slot) co_return fail(Code::Conflict, "sandbox " + id + " is not running");
  // A descriptor of our own: the sandbox may be removed meanwhile.
  const UniqueFd netns(::fcntl(entry->live->slot->netns.get(), F_DUPFD_CLOEXEC, 3));
  co_return co_await pool_.run([&] { return connect_in_namespace(netns.get(), port, kConnectLimit); });
}

// ---- after a restart

Result<void> SandboxManager::recover() {
  for (const std::string& id : builder_.ids()) {
    if (api::native::is_valid_id(id)) recover_one(id);
  }
  std::vector<std::string> living;
  for (const auto& [id, entry] : entries_) {
    if (entry->live) living.push_back(id);
  }
  builder_.sweep(living);
  builder_.empty_trash();
  for (const SnapshotInfo& snapshot : snapshots_.list()) {
    auto leases = images_.lease(snapshot.base.diff_ids);
    if (!leases) {
      log_error("snapshot without its image", {{"id", snapshot.id}, {"error", leases.error().message}});
      continue;
    }
    snapshot_leases_[snapshot.id] = std::move(*leases);
  }
  return {};
}

void SandboxManager::recover_one(const std::string& id) {
  auto record = load_record(builder_.directory(id));
  auto entry = std::make_shared<Entry>(executor_);
  if (!record) {
    if (record.error().code != Code::NotFound) {
      // Somebody else has been here: it stays for him to look at. Its processes end with the sweep.
      log_error("record cannot be read", {{"id", id}, {"error", record.error().message}});
      return;
    }
    entry->record.spec.id = id;  // the crash came before the record
    builder_.erase(entry->record);
    return;
  }
  entry->record = std::move(*record);
  const bool had_ended = entry->record.status.state == State::Exited;
  auto live = had_ended ? Result<LiveSandbox>(fail(Code::NotFound, "")) : builder_.adopt(entry->record);
  // A create is whole when its process is recorded; whoever asked for it finds it in the list.
  const bool half_made = !entry->record.process;
  if (entry->record.removing || half_made) {
    log_info("finishing what was begun", {{"id", id}, {"what", half_made ? "create" : "remove"}});
    builder_.tear_down(entry->record, live ? std::move(*live) : LiveSandbox());
    builder_.sweep_one(id);
    builder_.erase(entry->record);
    return;
  }
  if (live) {
    auto leases = images_.lease(entry->record.layers);
    if (leases) entry->leases = std::move(*leases);
    entry->live = std::move(*live);
    entry->record.status.state = entry->live->cgroup->frozen().value_or(false) ? State::Paused : State::Running;
    log_info("sandbox found again", {{"id", id}, {"state", to_string(entry->record.status.state)}});
  } else if (!had_ended) {
    if (live.error().code != Code::NotFound) {
      log_error("sandbox lost", {{"id", id}, {"error", live.error().message}});
    }
    const auto boot = kernel::identify(::getpid());
    const bool restarted = boot && boot->boot_id != entry->record.process->boot_id;
    LiveSandbox rest;
    if (auto cgroup = builder_.cgroup_of(id)) rest.cgroup = std::move(*cgroup);
    entry->live = std::move(rest);
    const api::native::Exit exit = how_it_ended(*entry);
    builder_.tear_down(entry->record, std::move(*entry->live));
    entry->live.reset();
    record_exit(*entry, exit);
    if (restarted) {
      entry->record.status.reason = "HOST_RESTARTED";
      entry->record.status.message = "the host was restarted";
      (void)save_record(builder_.directory(id), entry->record);
    }
  }
  entry->settled.set();
  entries_.emplace(id, std::move(entry));
}

void SandboxManager::start() {
  for (const auto& [id, entry] : entries_) {
    if (!entry->live) continue;
    auto watched = Descriptor::open(executor_, UniqueFd(::fcntl(entry->live->pidfd.get(), F_DUPFD_CLOEXEC, 3)));
    if (!watched) {
      log_error("sandbox not watched", {{"id", id}, {"error", watched.error().message}});
      continue;
    }
    entry->exit_watch.emplace(std::move(*watched));
    tasks_.spawn("watch sandbox", watch_exit(entry));
  }
}

// ---- snapshots

net::awaitable<Result<api::native::Snapshot>> SandboxManager::snapshot(std::string id, std::string snapshot_id) {
  if (!api::native::is_valid_id(snapshot_id)) {
    co_return fail(Code::InvalidRequest, "/id: '" + snapshot_id + "' cannot be the id of a snapshot");
  }
  auto found = find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  const Entry::Guard guard = co_await Entry::lock(entry);
  const State state = entry->record.status.state;
  if (state != State::Running && state != State::Paused && state != State::Exited) {
    co_return fail(Code::Conflict, "sandbox " + id + " is " + std::string(to_string(state)));
  }
  SnapshotBase base{entry->record.status.image, entry->record.image_config, entry->record.layers,
                    entry->record.snapshots};
  auto leases = images_.lease(base.diff_ids);
  if (!leases) co_return Failure(leases.error());
  FreezeHooks hooks{[] { return Result<void>(); }, [] { return Result<void>(); }};
  if (state == State::Running) {
    hooks.freeze = [&] { return entry->live->cgroup->freeze(true); };
    hooks.thaw = [&] { return entry->live->cgroup->freeze(false); };
  }
  CaptureTimes times;
  auto captured = co_await pool_.run([&]() -> Result<SnapshotInfo> {
    auto upper = sys::open_at(AT_FDCWD, builder_.directory(id) + "/upper", O_RDONLY | O_DIRECTORY);
    if (!upper) return Failure(upper.error());
    return snapshots_.capture(snapshot_id, base, upper->get(), hooks, &times);
  });
  if (!captured) co_return with_context("snapshot of sandbox " + id, captured.error());
  snapshot_leases_[snapshot_id] = std::move(*leases);
  log_info("snapshot made", {{"id", snapshot_id},
                             {"sandbox", id},
                             {"bytes", captured->bytes},
                             {"ms", times.total_ms},
                             {"frozen_ms", times.frozen_ms}});
  co_return inspect_snapshot(snapshot_id);
}

namespace {

api::native::Snapshot describe(const SnapshotInfo& info) {
  return {.id = info.id,
          .sandbox = "",
          .image = info.base.image,
          .bytes = info.bytes,
          .created_at = Timestamp(std::chrono::seconds(info.created))};
}

}  // namespace

std::vector<api::native::Snapshot> SandboxManager::list_snapshots() const {
  std::vector<api::native::Snapshot> out;
  for (const SnapshotInfo& info : snapshots_.list()) out.push_back(describe(info));
  return out;
}

Result<api::native::Snapshot> SandboxManager::inspect_snapshot(const std::string& id) const {
  auto info = snapshots_.get(id);
  if (!info) return Failure(info.error());
  return describe(*info);
}

net::awaitable<Result<void>> SandboxManager::remove_snapshot(std::string id) {
  const auto users = static_cast<std::size_t>(std::ranges::count_if(entries_, [&](const auto& each) {
    return each.second->live &&
           std::ranges::find(each.second->record.snapshots, id) != each.second->record.snapshots.end();
  }));
  auto removed = co_await pool_.run([&] { return snapshots_.remove(id, users); });
  // Hidden ones may still be needed by others, which hold the same leases.
  if (removed) snapshot_leases_.erase(id);
  co_return removed;
}

Result<SandboxBase> SandboxManager::snapshot_base(const std::string& id) const {
  auto info = snapshots_.get(id);
  if (!info) return Failure(info.error());
  auto layers = snapshots_.layers(id);
  if (!layers) return Failure(layers.error());
  auto config = image::decode_image_config(info->base.config);
  if (!config) return with_context("image configuration of snapshot " + id, config.error());
  auto leases = images_.lease(info->base.diff_ids);
  if (!leases) return Failure(leases.error());
  std::ranges::reverse(*leases);
  SandboxBase out;
  out.image.kind = info->base.image == kHostImage ? ResolvedImage::Kind::Host : ResolvedImage::Kind::Layers;
  out.image.name = info->base.image;
  out.image.config = std::move(*config);
  out.image.layers = std::move(*leases);
  for (const auto& layer : *layers) out.snapshot_layers.push_back(layer.string());
  return out;
}

}  // namespace osb::sandboxd
