#include "sandboxd/sandbox/sandbox_manager.h"

#include <algorithm>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/json/serialize.hpp>

#include "base/id.h"
#include "base/log.h"
#include "base/time.h"
#include "sandboxd/sandbox/check_request.h"
#include "sandboxd/sandbox/exit_reason.h"
#include "sandboxd/sandbox/file_tail.h"
#include "sandboxd/sandbox/image_config_text.h"
#include "sandboxd/sandbox/launch_request.h"
#include "sandboxd/sandbox/sandbox_entry.h"
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

Failure unknown(const std::string& id) {
  Error error(Code::NotFound, "sandbox " + id + " does not exist");
  error.reason = "SANDBOX::NOT_FOUND";
  return Failure(std::move(error));
}

Error with_reason(Error error, const char* reason) {
  if (error.reason.empty()) error.reason = reason;
  return error;
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

SandboxManager::SandboxManager(net::any_io_executor executor, BlockingPool& pool, SandboxBuilder& builder,
                               ImageService& images, SnapshotStore& snapshots)
    : executor_(executor),
      pool_(pool),
      builder_(builder),
      images_(images),
      snapshots_(snapshots),
      client_(http::make_plain_connector()),
      feed_(executor),
      log_watch_(executor),
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
  co_await log_watch_.stop();
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
  publish(entry.record.spec.id);
}

// ---- create

net::awaitable<Result<Sandbox>> SandboxManager::create(CreateSandbox spec) {
  if (entries_.contains(spec.id)) co_return fail(Code::Conflict, "sandbox " + spec.id + " exists");
  if (auto checked = check_request(spec); !checked) co_return Failure(checked.error());
  auto runtime = builder_.resolve_runtime(spec.runtime);
  if (!runtime) co_return Failure(runtime.error());
  spec.runtime = std::move(*runtime);
  auto entry = std::make_shared<Entry>(executor_);
  auto login = std::exchange(spec.login, std::nullopt);
  Sandbox& status = entry->record.status;
  status.id = spec.id;
  status.image = spec.image;
  status.snapshot = spec.snapshot;
  status.created_at = timestamp_now();
  status.network = spec.network;
  status.execd_token = std::exchange(spec.execd_token, "");
  if (status.execd_token.empty()) status.execd_token = new_hex_id() + new_hex_id();
  status.labels = spec.labels;
  status.message = "starting";
  entry->record.spec = std::move(spec);
  entry->busy = true;
  entries_.emplace(status.id, entry);
  publish(status.id);
  tasks_.spawn("create sandbox", run_create(entry, std::move(login)));
  if (!co_await entry->settled.wait()) co_return fail(Code::Cancelled, "sandboxd is ending");
  if (entry->error) co_return Failure(*entry->error);
  co_return entry->record.status;
}

net::awaitable<void> SandboxManager::run_create(EntryPtr entry, std::optional<RegistryLogin> login) {
  const Entry::Guard guard(entry);
  const auto begin = std::chrono::steady_clock::now();
  const std::string id = entry->record.spec.id;
  ++creating_;
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
      entry->record.volumes_to_delete = entry->live->new_volumes;
      co_await tear_down(entry);
      co_await pool_.run([&] { builder_.erase(entry->record); });
    }
    empty_trash_later();
    entries_.erase(id);
    publish(id, entry->error);
  }
  entry->settled.set();
  --creating_;
  prepare_later();
}

// When the answer is on its way, and nobody else waits for one: to those, what is made for others is in the way.
void SandboxManager::prepare_later() {
  if (creating_ > 0 || std::exchange(preparing_, true)) return;
  tasks_.spawn("prepare", [](SandboxManager& self) -> net::awaitable<void> {
    co_await self.pool_.run([&] { self.builder_.prepare(); });
    self.preparing_ = false;
  }(*this));
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
  // A copy: the loop shows the record to others meanwhile.
  SandboxRecord built = record;
  auto live = co_await pool_.run([&] { return builder_.build(built, *base); });
  record = std::move(built);
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
  const bool over = !answered && read_exit_record(builder_.exit_file(entry->record));
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

net::awaitable<Result<http::ClientResponse>> SandboxManager::ask_execd(const Sandbox& status, std::string method,
                                                                       std::string target) {
  http::ClientRequest request;
  request.method = std::move(method);
  request.target = std::move(target);
  request.headers.set("X-EXECD-ACCESS-TOKEN", status.execd_token);
  request.headers.set("Connection", "close");
  return client_.send(
      status.execd_socket.empty() ? status.address + ":" + std::to_string(kExecdPort) : "unix:" + status.execd_socket,
      std::move(request));
}

net::awaitable<Result<void>> SandboxManager::ping(EntryPtr entry) {
  if (entry->live->log_watch) {
    if (auto listens = co_await wait_listening(entry); !listens) co_return listens;
  }
  // An address does not end with its sandbox: nobody would answer for seconds.
  auto outcome = co_await (ask_execd(entry->record.status, "GET", "/ping") || entry->exit_watch->wait_readable());
  if (outcome.index() == 1) co_return fail(Code::Internal, "it ended");
  const auto& response = std::get<0>(outcome);
  if (!response) co_return Failure(response.error());
  if (response->status != 200) co_return fail(Code::Internal, "status " + std::to_string(response->status));
  co_return Result<void>();
}

// execd says so in the first line of its log, which is also a sign that it has started at all.
net::awaitable<Result<void>> SandboxManager::wait_listening(EntryPtr entry) {
  auto watch = Descriptor::open(executor_, std::move(entry->live->log_watch));
  if (!watch) co_return Failure(watch.error());
  const std::string log = builder_.run_file(entry->record.spec.id, "execd.log");
  for (;;) {
    const auto text = read_tail(log, 2000);
    if (!text) co_return Failure(text.error());
    if (text->find(" listening on ") != std::string::npos) co_return Result<void>();
    char news[4096];
    const auto got = co_await (watch->read_some(news) || entry->exit_watch->wait_readable());
    if (got.index() == 1) co_return fail(Code::Internal, "it ended");
    if (!std::get<0>(got)) co_return Failure(std::get<0>(got).error());
  }
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
  return describe_exit(read_exit_record(builder_.exit_file(entry.record)), process, oom);
}

void SandboxManager::record_exit(Entry& entry, const api::native::Exit& exit) {
  Sandbox& status = entry.record.status;
  status.exit = exit;
  status.reason = exit_reason(exit);
  status.ended_at = timestamp_now();
  status.pid = 0;
  log_info("sandbox ended", {{"id", status.id}, {"reason", status.reason}, {"code", exit.code}});
  const std::string why = read_exit_error(builder_.run_file(status.id, "exit.json"));
  const std::string message = exit_message(exit, entry.record.spec.limits.memory_bytes);
  set_state(entry, State::Exited, message + (why.empty() ? "" : ": " + why));
  if (auto saved = save_record(builder_.directory(status.id), entry.record); !saved) {
    log_error("record not written", {{"id", status.id}, {"error", saved.error().message}});
  }
}

net::awaitable<void> SandboxManager::tear_down(EntryPtr entry) {
  LiveSandbox live = std::move(*entry->live);
  entry->live.reset();
  SandboxRecord record = entry->record;  // of the pool's own, see start_sandbox()
  co_await pool_.run([&] { builder_.tear_down(record, std::move(live)); });
  entry->record = std::move(record);
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
  // The create has cleaned up, or another remove; the id may be in use again.
  if (const auto current = entries_.find(id); current == entries_.end() || current->second != entry) {
    co_return Result<void>();
  }
  const auto begin = std::chrono::steady_clock::now();
  entry->removing = true;
  entry->record.removing = true;
  set_state(*entry, State::Removing);
  SandboxRecord record = entry->record;  // both of the pool's own, see start_sandbox()
  std::optional<LiveSandbox> live = std::exchange(entry->live, std::nullopt);
  co_await pool_.run([&] {
    // So that a crash in the middle does not bring it back. When it cannot be written, the record that is there says
    // that it lives, and recovery finds it dead.
    (void)save_record(builder_.directory(id), record);
    builder_.step("removal recorded");
    if (live) builder_.tear_down(record, std::move(*live));
    builder_.erase(record);
  });
  entry->leases.clear();
  entries_.erase(id);
  publish(id);
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

}  // namespace osb::sandboxd
