#include "taskexecutor/tasks.h"

#include <algorithm>
#include <csignal>

#include <boost/asio/this_coro.hpp>

#include "async/directory_watch.h"
#include "async/race.h"
#include "base/json_escape.h"
#include "base/log.h"
#include "sys/pidfd.h"
#include "taskexecutor/supervisor.h"

namespace osb::taskexecutor {

using namespace race;
using std::chrono::nanoseconds;

namespace {

// A supervisor kills its task at the end of its own grace; after this it must be stuck itself.
constexpr std::chrono::seconds kSupervisorLimit = kGrace + std::chrono::seconds(10);
// Longer waits are cut into parts: a timeout of a thousand years must not overflow a timer.
constexpr std::chrono::hours kLongestWait{24};
// A record that could not be written or a directory that could not be removed.
constexpr std::chrono::seconds kRetry{5};

Timestamp deadline_of(const TaskRecord& record) {
  const auto seconds = std::clamp<std::int64_t>(*record.process->timeout_seconds, 0, 1'000'000'000);
  const auto start = std::chrono::floor<std::chrono::seconds>(*record.status.started_at);
  return Timestamp(start.time_since_epoch() + std::chrono::seconds(seconds));
}

bool has_timeout(const TaskRecord& record) {
  return record.process && record.process->timeout_seconds && *record.process->timeout_seconds > 0 &&
         record.status.started_at;
}

}  // namespace

struct Tasks::Entry {
  Entry(net::any_io_executor executor, TaskDirectory at, TaskRecord what)
      : directory(std::move(at)), record(std::move(what)), wake(std::move(executor)) {}

  TaskDirectory directory;
  TaskRecord record;
  std::optional<Descriptor> supervisor;  // its pidfd; nothing once it has ended
  std::string cgroup;
  std::optional<DirectoryWatch> files;
  std::optional<std::chrono::steady_clock::time_point> kill_at;  // stopping since then less kSupervisorLimit
  bool unsaved = false;
  Event wake;  // marked for removal

  bool removed() const { return record.deleted_at.has_value(); }
  bool active() const { return !record.status.ended() && !removed(); }
};

Tasks::Tasks(net::any_io_executor executor, BlockingPool& pool, TaskSettings settings)
    : executor_(executor),
      pool_(pool),
      settings_(std::move(settings)),
      cgroups_(sys::CommandCgroups::find()),
      free_(executor),
      changed_(executor),
      watchers_(executor) {}

class Tasks::Turn {
 public:
  explicit Turn(Tasks& tasks) : tasks_(tasks) { tasks_.busy_ = true; }
  ~Turn() {
    tasks_.busy_ = false;
    tasks_.free_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Tasks& tasks_;
};

net::awaitable<Result<std::unique_ptr<Tasks::Turn>>> Tasks::take_turn() {
  if (!co_await free_.wait_until([this] { return !busy_; })) co_return fail(Code::Cancelled, "cancelled");
  co_return std::make_unique<Turn>(*this);
}

void Tasks::changed() {
  ++version_;
  changed_.notify_all();
}

std::vector<api::Task> Tasks::list() const {
  std::vector<api::Task> out;
  for (const auto& [name, entry] : entries_) out.push_back(to_task(entry->record));
  return out;
}

std::optional<api::Task> Tasks::find(const std::string& name) const {
  const auto it = entries_.find(name);
  return it == entries_.end() ? std::nullopt : std::optional(to_task(it->second->record));
}

net::awaitable<void> Tasks::wait_change(std::uint64_t version, std::chrono::milliseconds limit) {
  co_await (changed_.wait_until([this, version] { return version_ != version; }) || sleep_for(limit));
}

bool Tasks::any_active() const {
  return std::ranges::any_of(entries_, [](const auto& item) { return item.second->active(); });
}

void Tasks::watch(EntryPtr entry) {
  auto files = DirectoryWatch::open(executor_, entry->directory.path());
  if (files) {
    entry->files = std::move(*files);
  } else {
    // The end of the supervisor is still told, and with it the task's unless it has left processes behind.
    log_warn("task directory is not watched", {{"task", entry->record.name}, {"error", files.error().message}});
  }
  entries_[entry->record.name] = entry;
  watchers_.spawn("watch task " + entry->record.name, follow(entry));
}

net::awaitable<Result<void>> Tasks::recover() {
  const auto names = co_await pool_.run([&] { return TaskDirectory::list(settings_.data_dir); });
  if (!names) co_return Failure(names.error());
  for (const std::string& name : *names) {
    const auto open = [&]() -> Result<std::pair<TaskDirectory, TaskRecord>> {
      auto directory = TaskDirectory::open(settings_.data_dir, name);
      if (!directory) return Failure(directory.error());
      auto record = directory->load();
      if (!record) return Failure(record.error());
      return std::pair(std::move(*directory), std::move(*record));
    };
    auto opened = co_await pool_.run(open);
    if (!opened || opened->second.name != name) {
      log_warn("task not recovered",
               {{"task", name}, {"error", opened ? "task.json has another name" : opened.error().message}});
      continue;
    }
    auto entry = std::make_shared<Entry>(executor_, std::move(opened->first), std::move(opened->second));
    auto supervisor = co_await pool_.run([&] { return find_supervisor(entry->directory); });
    const TaskStatus seen = entry->directory.inspect(supervisor.has_value());
    const bool lost = seen.state == TaskState::Pending || seen.state == TaskState::Failed;
    if (!entry->record.status.ended() && lost && !entry->removed()) {
      log_info("task dropped, its end is not known", {{"task", name}});
      co_await pool_.run([&] {
        if (const auto old = entry->directory.supervisor()) clear_cgroup(old->cgroup);
        (void)entry->directory.remove(settings_.data_dir);
      });
      continue;
    }
    const auto old = entry->directory.supervisor();
    if (old) entry->cgroup = old->cgroup;
    if (supervisor) {
      auto pidfd = Descriptor::open(executor_, std::move(supervisor->pidfd));
      if (!pidfd) co_return Failure(pidfd.error());
      entry->supervisor = std::move(*pidfd);
    }
    if (entry->record.status.state != TaskState::Timeout && seen != entry->record.status) {
      entry->record.status = seen;
      entry->unsaved = true;
    }
    watch(std::move(entry));
  }
  co_return Result<void>();
}

net::awaitable<Result<void>> Tasks::start(api::Task task) {
  if (entries_.contains(task.name)) co_return fail(Code::Conflict, "task " + in_quotes(task.name) + " already exists");
  if (any_active()) co_return fail(Code::Exhausted, "another task is active, and one is the limit");
  if (!task.process) {
    co_return fail(Code::Unsupported, task.pod_template.is_null() ? "the task has no process"
                                                                  : "tasks with podTemplateSpec are not implemented");
  }
  TaskRecord record{task.name, {}, std::move(task.process), std::move(task.pod_template), {}};
  Supervisor supervisor;
  const auto make = [&]() -> Result<TaskDirectory> {
    auto directory = TaskDirectory::create(settings_.data_dir, record);
    if (!directory) return directory;
    auto launched = launch({*record.process, settings_.env, settings_.main_container, cgroups_}, *directory);
    if (!launched) {
      (void)directory->remove(settings_.data_dir);
      return Failure(launched.error());
    }
    supervisor = std::move(*launched);
    record.status = directory->inspect(true);
    if (auto saved = directory->save(record); !saved) log_warn("task not saved", {{"error", saved.error().message}});
    return directory;
  };
  auto directory = co_await pool_.run(make);
  if (!directory) co_return Failure(directory.error());
  auto pidfd = Descriptor::open(executor_, std::move(supervisor.pidfd));
  if (!pidfd) co_return Failure(pidfd.error());
  log_info("task started", {{"task", record.name}, {"cgroup", supervisor.cgroup}});
  auto entry = std::make_shared<Entry>(executor_, std::move(*directory), std::move(record));
  entry->supervisor = std::move(*pidfd);
  entry->cgroup = std::move(supervisor.cgroup);
  watch(std::move(entry));
  changed();
  co_return Result<void>();
}

net::awaitable<Result<void>> Tasks::mark_removed(EntryPtr entry) {
  if (entry->removed()) co_return Result<void>();
  entry->record.deleted_at = now();  // before it is written: the watcher may write the record as well
  const TaskRecord record = entry->record;
  auto saved = co_await pool_.run([&] { return entry->directory.save(record); });
  if (!saved) {
    entry->record.deleted_at.reset();
    co_return saved;
  }
  entry->wake.set();
  changed();
  co_return Result<void>();
}

net::awaitable<Result<void>> Tasks::set(std::vector<api::Task> wanted) {
  const auto turn = co_await take_turn();
  if (!turn) co_return Failure(turn.error());
  Result<void> first;
  const auto note = [&](const Result<void>& done, const std::string& name) {
    if (!done && first) first = with_context("task " + in_quotes(name), done.error());
  };
  std::vector<EntryPtr> unlisted;
  for (const auto& [name, entry] : entries_) {
    if (std::ranges::find(wanted, name, &api::Task::name) == wanted.end()) unlisted.push_back(entry);
  }
  for (const EntryPtr& entry : unlisted) note(co_await mark_removed(entry), entry->record.name);
  for (api::Task& task : wanted) {
    if (task.name.empty() || entries_.contains(task.name)) continue;
    const std::string name = task.name;
    note(co_await start(std::move(task)), name);
  }
  co_return first;
}

net::awaitable<Result<api::Task>> Tasks::add(api::Task task) {
  const auto turn = co_await take_turn();
  if (!turn) co_return Failure(turn.error());
  const std::string name = task.name;
  auto started = co_await start(std::move(task));
  if (!started) co_return Failure(started.error());
  co_return *find(name);
}

net::awaitable<Result<void>> Tasks::remove(std::string name) {
  const auto turn = co_await take_turn();
  if (!turn) co_return Failure(turn.error());
  const auto it = entries_.find(name);
  if (it == entries_.end()) co_return Result<void>();
  co_return co_await mark_removed(it->second);
}

net::awaitable<void> Tasks::close() { return watchers_.close(); }

// Brings the record up to date with the files and the clock.
net::awaitable<void> Tasks::look(Entry& entry) {
  const bool alive = entry.supervisor.has_value();
  TaskStatus seen = co_await pool_.run([&] { return entry.directory.inspect(alive); });
  const bool late = !seen.ended() && has_timeout(entry.record) && now() >= deadline_of(entry.record);
  if (late) seen = {TaskState::Timeout, kCrashExitCode, seen.started_at, now()};
  // A task that ran out of time stays so, whatever its processes say on their way out.
  if (entry.record.status.state == TaskState::Timeout) seen = entry.record.status;
  const bool fresh = seen != entry.record.status;
  if (!fresh && !entry.unsaved) co_return;
  TaskRecord record = entry.record;
  record.status = seen;
  // On disk before anybody is told.
  const auto saved = co_await pool_.run([&] { return entry.directory.save(record); });
  entry.unsaved = !saved;
  if (!saved) log_warn("task not saved", {{"task", record.name}, {"error", saved.error().message}});
  if (!fresh) co_return;
  entry.record.status = seen;
  changed();
  log_info("task changed", {{"task", record.name}, {"state", to_string(seen.state)}, {"exit_code", seen.exit_code}});
}

void Tasks::stop(Entry& entry) {
  const auto time = settings_.clock->steady_now();
  if (!entry.kill_at) {
    entry.kill_at = time + kSupervisorLimit;
    (void)sys::send_signal(entry.supervisor->fd(), SIGTERM);
  } else if (time >= *entry.kill_at) {
    log_warn("supervisor killed, it did not end", {{"task", entry.record.name}});
    (void)sys::send_signal(entry.supervisor->fd(), SIGKILL);
  }
}

net::awaitable<void> Tasks::wait_event(EntryPtr entry) {
  nanoseconds limit = kLongestWait;
  if (entry->unsaved) limit = kRetry;
  if (has_timeout(entry->record) && !entry->record.status.ended()) {
    limit = std::min<nanoseconds>(limit, deadline_of(entry->record) - now());
  }
  if (entry->kill_at) limit = std::min<nanoseconds>(limit, *entry->kill_at - settings_.clock->steady_now());
  limit = std::max<nanoseconds>(limit, std::chrono::milliseconds(1));
  if (!entry->supervisor) {
    co_await (entry->wake.wait() || sleep_for(limit));
    co_return;
  }
  const auto files = [](EntryPtr watched) -> net::awaitable<void> {
    if (watched->files) {
      const auto told = co_await watched->files->changed();
      if (told || told.error().code == Code::Cancelled) co_return;
      watched->files.reset();
    }
    co_await sleep_for(kLongestWait);
  };
  const auto woken = [](EntryPtr watched) -> net::awaitable<void> {
    if (watched->kill_at) {  // it has been told already
      co_await sleep_for(kLongestWait);
    } else {
      co_await watched->wake.wait();
    }
  };
  const auto woke = co_await (entry->supervisor->wait_readable() || files(entry) || woken(entry) || sleep_for(limit));
  if (woke.index() == 0 && std::get<0>(woke)) entry->supervisor.reset();
}

net::awaitable<void> Tasks::follow(EntryPtr entry) {
  for (;;) {
    co_await look(*entry);
    if (entry->supervisor && (entry->removed() || entry->record.status.state == TaskState::Timeout)) stop(*entry);
    if (!entry->supervisor && !entry->cgroup.empty()) {
      co_await pool_.run([&] { clear_cgroup(entry->cgroup); });
      entry->cgroup.clear();
    }
    if (!entry->supervisor && entry->removed()) {
      const auto gone = co_await pool_.run([&] { return entry->directory.remove(settings_.data_dir); });
      if (gone) {
        entries_.erase(entry->record.name);
        log_info("task removed", {{"task", entry->record.name}});
        changed();
        co_return;
      }
      log_warn("task not removed", {{"task", entry->record.name}, {"error", gone.error().message}});
      if (!co_await sleep_for(kRetry)) co_return;
      continue;
    }
    co_await wait_event(entry);
    if ((co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none) co_return;
  }
}

}  // namespace osb::taskexecutor
