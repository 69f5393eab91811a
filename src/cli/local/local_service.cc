#include "cli/local/local_service.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "cli/local/daemon_start.h"
#include "cli/local/list_directory.h"
#include "cli/local/port_holder.h"
#include "cli/local/service_network.h"
#include "cli/local/service_removal.h"
#include "cli/local/service_settings.h"
#include "sys/replace_file.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPrograms = {"sandboxd", "execd", "opensandbox-server"};
constexpr const char* kServer = "opensandbox-server";

Result<void> check_programs(const fs::path& programs) {
  for (const char* program : kPrograms) {
    if (::access((programs / program).c_str(), X_OK) != 0) {
      return fail(Code::NotFound, (programs / program).string() + " is missing; install it next to osb");
    }
  }
  return {};
}

// Ours, or a new one. Another program's directory is never filled, and later removed, by mistake.
Result<void> take_directory(const fs::path& directory) {
  if (::mkdir(directory.c_str(), 0711) == 0) return {};
  if (errno != EEXIST) return sys::from_errno("make " + directory.string(), errno);
  struct stat st{};
  if (::lstat(directory.c_str(), &st) != 0) return sys::from_errno("look at " + directory.string(), errno);
  // An osb that was killed early may have left the record's draft and nothing else.
  const bool empty = S_ISDIR(st.st_mode) && std::ranges::all_of(list_directory(directory), [](const fs::path& each) {
                       return each.filename() == "service.json.new";
                     });
  if (st.st_uid != ::geteuid() || !S_ISDIR(st.st_mode) || (!empty && !fs::exists(directory / "service.json"))) {
    return fail(Code::Conflict, directory.string() + " is in use for something else; name another one with --dir");
  }
  if (empty) (void)::chmod(directory.c_str(), 0711);
  return {};
}

// The server runs as a user of its own, which needs access to its database and to sandboxd's socket.
Result<void> check_reachable(const fs::path& directory) {
  fs::path at;
  for (const fs::path& part : directory.parent_path()) {
    at /= part;
    struct stat st{};
    if (::stat(at.c_str(), &st) != 0) return sys::from_errno("look at " + at.string(), errno);
    if ((st.st_mode & S_IXOTH) != 0) continue;
    return fail(Code::Forbidden, "the server runs without privileges and cannot enter " + at.string() +
                                     "; name another directory with --dir, or let it in: chmod o+x " + at.string());
  }
  return {};
}

Result<UniqueFd> take_and_lock(const fs::path& directory, const Progress& say) {
  for (;;) {
    if (auto ok = take_directory(directory); !ok) return Failure(ok.error());
    auto lock = lock_service(directory, [&] { say("Waiting for another osb that starts or stops this service"); });
    if (lock || lock.error().code != Code::NotFound) return lock;  // not found: removed meanwhile
  }
}

ServiceRecord new_record(const LocalServiceOptions& options) {
  // Interface names are short: prefix and number have to fit into 15 characters.
  const std::string id = new_hex_id().substr(0, 4);
  ServiceRecord out;
  out.port = options.otherwise.port;
  out.key = options.otherwise.key;
  out.cgroup_parent = "osb-local-" + new_hex_id().substr(0, 8);
  out.table = "osb-local-" + id;
  out.interface_prefix = "osl" + id + "-";
  return out;
}

// Daemons as they are: the record may be of a run that was killed, or of the time before a reboot.
void look_for_daemons(const fs::path& directory, ServiceRecord& record) {
  if (!record.sandboxd || !record.sandboxd->alive()) {
    record.sandboxd = find_daemon("sandboxd", sandboxd_settings(directory));
  }
  if (!record.server || !record.server->alive()) record.server = find_daemon(kServer, server_settings(directory));
}

// One start: it knows which daemons it has started, and stops them when it fails.
class Start {
 public:
  Start(const LocalServiceOptions& options, ServiceRecord& record, const Progress& say)
      : options_(options), directory_(options.directory), record_(record), say_(say) {}

  Result<void> run() {
    if (auto ok = write_numbers(); !ok) return ok;
    if (auto ok = run_sandboxd(); !ok) return ok;
    return run_server();
  }

  void undo() {
    if (started_server_ && record_.server) stop_daemon(*record_.server);
    if (started_sandboxd_ && record_.sandboxd) stop_daemon(*record_.sandboxd);
  }

  bool started_any() const { return started_sandboxd_ || started_server_; }

 private:
  // Addresses may have been taken by others while it was down. Sandboxes that run have theirs already.
  Result<void> write_numbers() {
    if (record_.sandboxd) return write_record(directory_, record_);
    return claim_network(directory_, record_.network, count_running_sandboxes(record_) > 0, record_.interface_prefix,
                         [&](unsigned network) {
                           record_.network = network;
                           return write_record(directory_, record_);
                         });
  }

  // True: it runs with these settings and is ready. A daemon with other settings than `text` is stopped before its file
  // changes: the file always tells what a daemon that runs was started with.
  Result<bool> keep_running(std::optional<DaemonProcess>& process, const fs::path& log, const fs::path& file,
                            const std::string& text, const sys::FileAccess& access) {
    const auto before = sys::read_text(file);
    const bool same = before && *before == text;
    if (process && same) {
      auto runs = wait_for_daemon(*process, log);
      if (!runs || *runs) return runs;
    }
    if (process) stop_daemon(*process);
    process.reset();
    if (same) return false;
    if (auto done = sys::replace_file(file, text, access); !done) return Failure(done.error());
    return false;
  }

  Result<void> run_sandboxd() {
    const fs::path program = options_.programs / "sandboxd", log = directory_ / "sandboxd.log";
    const auto running =
        keep_running(record_.sandboxd, log, sandboxd_settings(directory_), sandboxd_settings_text(record_), {});
    if (!running) return Failure(running.error());
    if (*running) return {};
    say_("Starting sandboxd");
    const auto execd = copy_program(options_.programs / "execd", directory_);
    if (!execd) return Failure(execd.error());
    const DaemonPlan plan{program,
                          {"--config", sandboxd_settings(directory_), "--state-dir", directory_ / "state", "--run-dir",
                           directory_ / "run", "--execd", *execd},
                          log};
    return start_daemon(plan, [&](DaemonProcess process) {
      started_sandboxd_ = true;
      record_.sandboxd = std::move(process);
      return write_record(directory_, record_);
    });
  }

  Result<void> run_server() {
    const fs::path log = directory_ / "opensandbox-server.log";
    const uid_t user = server_id_of(record_.network);
    const auto running =
        keep_running(record_.server, log, server_settings(directory_), server_settings_text(directory_, record_),
                     {.mode = 0640, .group = user});
    if (!running) return Failure(running.error());
    if (*running) return {};
    say_("Starting the server");
    if (auto ok = prepare_server_directory(directory_, record_); !ok) return ok;
    const auto program = copy_program(options_.programs / kServer, directory_);
    if (!program) return Failure(program.error());
    const DaemonPlan plan{*program, {"--config", server_settings(directory_)}, log, user};
    return start_daemon(plan, [&](DaemonProcess process) {
      started_server_ = true;
      record_.server = std::move(process);
      return write_record(directory_, record_);
    });
  }

  const LocalServiceOptions& options_;
  const fs::path& directory_;
  ServiceRecord& record_;
  const Progress& say_;
  bool started_sandboxd_ = false, started_server_ = false;
};

// The lock and the record of a service that is there.
struct Held {
  UniqueFd lock;
  ServiceRecord record;
};

Result<std::optional<Held>> hold_service(const fs::path& directory, const Progress& say) {
  auto lock = lock_service(directory, [&] { say("Waiting for another osb that starts or stops this service"); });
  if (!lock && (lock.error().code == Code::NotFound || lock.error().sys_errno == ENOTDIR)) return std::nullopt;
  if (!lock) return Failure(lock.error());
  auto record = read_record(directory);
  if (!record) return Failure(record.error());
  if (!*record) return std::nullopt;
  look_for_daemons(directory, **record);
  return Held{std::move(*lock), std::move(**record)};
}

}  // namespace

Result<StartedService> start_service(const LocalServiceOptions& options, const Progress& say) {
  if (auto ok = check_programs(options.programs); !ok) return Failure(ok.error());
  if (auto ok = check_reachable(options.directory); !ok) return Failure(ok.error());
  const auto lock = take_and_lock(options.directory, say);
  if (!lock) return Failure(lock.error());
  const auto before = read_record(options.directory);
  if (!before) return Failure(before.error());
  StartedService out;
  out.existed = before->has_value();
  out.record = out.existed ? **before : new_record(options);
  if (options.port) out.record.port = *options.port;
  if (options.key) out.record.key = *options.key;
  if (options.host_paths) out.record.host_paths = *options.host_paths;
  if (options.registries) out.record.registries = *options.registries;
  look_for_daemons(options.directory, out.record);
  Result<void> done;
  if (!out.record.server || (out.existed && out.record.port != (*before)->port)) {
    done = check_port_is_free(out.record.port);
  }
  Start start(options, out.record, say);
  if (done) done = start.run();
  if (done) {
    out.was_running = !start.started_any();
    out.sandboxes = count_running_sandboxes(out.record);
    return out;
  }
  start.undo();
  if (!out.existed) (void)remove_service(options.directory, out.record);
  return Failure(done.error());
}

Result<std::optional<StoppedService>> stop_service(const fs::path& directory, const Progress& say) {
  auto held = hold_service(directory, say);
  if (!held) return Failure(held.error());
  if (!*held) return std::nullopt;
  ServiceRecord& record = (*held)->record;
  StoppedService out;
  out.was_running = record.server || record.sandboxd;
  say("Stopping the server and sandboxd");
  if (record.server) stop_daemon(*record.server);
  if (record.sandboxd) stop_daemon(*record.sandboxd);
  record.server.reset();
  record.sandboxd.reset();
  if (auto ok = write_record(directory, record); !ok) return Failure(ok.error());
  out.sandboxes = count_running_sandboxes(record);
  out.record = std::move(record);
  return out;
}

Result<std::optional<ServiceRecord>> purge_service(const fs::path& directory, const Progress& say) {
  auto held = hold_service(directory, say);
  if (!held) return Failure(held.error());
  if (!*held) return std::nullopt;
  say("Stopping and removing everything");
  if (auto ok = remove_service(directory, (*held)->record); !ok) return Failure(ok.error());
  return std::move((*held)->record);
}

Result<void> remember_profile(const fs::path& directory, const SavedProfile& profile) {
  auto held = hold_service(directory, [](std::string) {});
  if (!held) return Failure(held.error());
  if (!*held) return {};
  std::vector<SavedProfile>& profiles = (*held)->record.profiles;
  const bool known = std::ranges::any_of(
      profiles, [&](const SavedProfile& each) { return each.file == profile.file && each.name == profile.name; });
  if (known) return {};
  profiles.push_back(profile);
  return write_record(directory, (*held)->record);
}

}  // namespace osb::cli
