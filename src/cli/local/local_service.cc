#include "cli/local/local_service.h"

#include <cerrno>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "cli/local/daemon_start.h"
#include "http/client.h"
#include "sys/pidfd.h"
#include "sys/process_tree.h"
#include "sys/spawn.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::string_view kTable = "osb-local";
constexpr std::array kPrograms = {"sandboxd", "execd", "opensandbox-server"};
constexpr std::chrono::seconds kDeath(5);  // of a process that was killed

std::string quote(const std::string& text) { return json::serialize(json::value(text)); }

Result<void> write_file(const fs::path& path, std::string_view text) {
  const UniqueFd out(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (out.get() < 0) return sys::from_errno("write " + path.string(), errno);
  const ssize_t written = ::write(out.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()))
    return sys::from_errno("write " + path.string(), written < 0 ? errno : ENOSPC);
  return {};
}

// --- stopping

// Removes every sandbox through sandboxd, which knows all that belongs to one.
net::awaitable<void> remove_sandboxes(std::string socket) {
  http::Client client(http::make_plain_connector());
  const std::string origin = "unix:" + socket;
  http::ClientRequest question;
  question.target = "/v1/sandboxes";
  auto answer = co_await client.send(origin, std::move(question));
  if (!answer) co_return;
  auto body = co_await answer->body->read_all(64 << 20);
  if (!body) co_return;
  auto value = api::parse_json(*body);
  if (!value) co_return;
  const json::object* object = value->if_object();
  const json::value* list = object != nullptr ? object->if_contains("sandboxes") : nullptr;
  if (list == nullptr || !list->is_array()) co_return;
  for (const json::value& each : list->get_array()) {
    const json::object* sandbox = each.if_object();
    const json::value* id = sandbox != nullptr ? sandbox->if_contains("id") : nullptr;
    if (id == nullptr || !id->is_string()) continue;
    http::ClientRequest request;
    request.method = "DELETE";
    request.target = "/v1/sandboxes/" + std::string(id->get_string());
    auto removed = co_await client.send(origin, std::move(request));
    if (removed && removed->body) (void)co_await removed->body->read_all(1 << 20);
  }
}

// Cgroups of the service, in every hierarchy.
std::vector<fs::path> cgroups_of(const std::string& parent) {
  std::vector<fs::path> out;
  std::error_code ignored;
  const fs::path root = "/sys/fs/cgroup";
  if (fs::exists(root / parent, ignored)) out.push_back(root / parent);
  for (const auto& each : fs::directory_iterator(root, ignored)) {
    if (each.is_directory(ignored) && !each.is_symlink(ignored) && fs::exists(each.path() / parent, ignored)) {
      out.push_back(each.path() / parent);
    }
  }
  return out;
}

// Ends what is in one cgroup, also where a dead sandboxd has left it frozen, and removes it.
void remove_cgroup(const fs::path& cgroup) {
  for (const auto& [name, value] :
       {std::pair{"cgroup.kill", "1"}, {"freezer.state", "THAWED"}, {"cgroup.freeze", "0"}}) {
    if (::access((cgroup / name).c_str(), W_OK) == 0) (void)sys::write_text(cgroup / name, value);
  }
  if (const auto text = sys::read_text(cgroup / "cgroup.procs")) {
    sys::for_each_line(*text, [](std::string_view line) {
      const auto pidfd = sys::open_pidfd(std::atoi(std::string(line).c_str()));
      if (!pidfd) return;
      (void)sys::send_signal(pidfd->get(), SIGKILL);
      (void)sys::wait_ended(pidfd->get(), kDeath);
    });
  }
  (void)::rmdir(cgroup.c_str());
}

// Sandboxes outlive a sandboxd that has died; what is in cgroups of our name is ours.
void remove_cgroups(const std::string& parent) {
  for (const fs::path& top : cgroups_of(parent)) {
    std::error_code ignored;
    std::vector<fs::path> all{top};
    for (const auto& each : fs::recursive_directory_iterator(top, ignored)) {
      if (each.is_directory(ignored)) all.push_back(each.path());
    }
    for (auto each = all.rbegin(); each != all.rend(); ++each) remove_cgroup(*each);
  }
}

void remove_table(const std::string& table) {
  const auto nft = sys::find_program("nft", "/usr/sbin:/sbin:/usr/bin:/usr/local/sbin");
  if (!nft) return;
  sys::SpawnPlan plan;
  plan.program = *nft;
  plan.argv = {"nft", "delete", "table", "inet", table};
  auto child = sys::spawn(plan);
  if (child) {
    (void)sys::wait_ended(child->pidfd.get(), kDeath);
    (void)sys::reap(*child);
  }
}

// The caller holds the lock.
Result<void> stop_recorded(const fs::path& directory, const ServiceRecord& record) {
  if (record.server) stop_daemon(*record.server);
  if (record.sandboxd && record.sandboxd->alive()) {
    net::io_context loop(1);
    net::co_spawn(loop, remove_sandboxes(directory / "run" / "sandboxd.sock"), net::detached);
    loop.run();
  }
  if (record.sandboxd) stop_daemon(*record.sandboxd);
  remove_cgroups(record.cgroup_parent);
  remove_table(record.table);
  std::error_code failed;
  fs::remove_all(directory, failed);
  if (failed) return fail(Code::Internal, "remove " + directory.string() + ": " + failed.message());
  return {};
}

// --- starting

Result<void> check_programs(const fs::path& programs) {
  for (const char* program : kPrograms) {
    if (::access((programs / program).c_str(), X_OK) != 0) {
      return fail(Code::NotFound, (programs / program).string() + " is missing; install it next to osb");
    }
  }
  return {};
}

Result<void> write_settings(const LocalServiceOptions& options, const ServiceRecord& record) {
  const fs::path& directory = options.directory;
  auto ok = write_file(directory / "sandboxd.toml",
                       "[daemon]\ncgroup_parent = " + quote(record.cgroup_parent) +
                           "\n[network]\nsubnet = \"10.91.0.0/16\"\ntable = " + quote(record.table) +
                           "\ninterface_prefix = \"osl-\"\nfirst_id = 1073741824\n");
  if (!ok) return ok;
  return write_file(directory / "server.toml",
                    "[server]\nhost = \"127.0.0.1\"\nport = " + std::to_string(options.port) +
                        "\napi_key = " + quote(options.key) + "\n[runtime]\ntype = \"native\"\n[native]\nsocket = " +
                        quote((directory / "run" / "sandboxd.sock").string()) +
                        "\n[store]\npath = " + quote((directory / "server.db").string()) + "\n");
}

Result<void> start_recorded(const LocalServiceOptions& options, ServiceRecord& record,
                            const std::function<void(std::string)>& say) {
  const fs::path& directory = options.directory;
  if (auto ok = write_settings(options, record); !ok) return ok;
  // Opened by the root of sandboxes, who is nobody out here: the program's directory may be private, its copy is not.
  const fs::path execd = directory / "execd";
  std::error_code failed;
  fs::copy_file(options.programs / "execd", execd, fs::copy_options::overwrite_existing, failed);
  if (failed || ::chmod(execd.c_str(), 0755) != 0) return fail(Code::Internal, "copy execd to " + execd.string());

  say("Starting sandboxd");
  // Recorded before it is ready: whoever is killed while he waits leaves nothing that nobody knows of.
  const auto record_sandboxd = [&](DaemonProcess process) {
    record.sandboxd = process;
    return write_record(directory, record);
  };
  const auto record_server = [&](DaemonProcess process) {
    record.server = process;
    return write_record(directory, record);
  };
  auto sandboxd = start_daemon(options.programs / "sandboxd",
                               {"--config", directory / "sandboxd.toml", "--state-dir", directory / "state",
                                "--run-dir", directory / "run", "--execd", execd},
                               directory / "sandboxd.log", record_sandboxd);
  if (!sandboxd) return sandboxd;
  say("Starting the server");
  return start_daemon(options.programs / "opensandbox-server", {"--config", directory / "server.toml"},
                      directory / "opensandbox-server.log", record_server);
}

// Ours, or a new one. Somebody else's directory is never filled, and later removed, by mistake.
Result<void> take_directory(const fs::path& directory) {
  if (::mkdir(directory.c_str(), 0711) == 0) return {};
  if (errno != EEXIST) return sys::from_errno("make " + directory.string(), errno);
  struct stat st{};
  if (::lstat(directory.c_str(), &st) != 0) return sys::from_errno("look at " + directory.string(), errno);
  std::error_code failed;
  const bool empty = S_ISDIR(st.st_mode) && fs::is_empty(directory, failed);
  if (st.st_uid != ::geteuid() || !S_ISDIR(st.st_mode) || (!empty && !fs::exists(directory / "service.json"))) {
    return fail(Code::Conflict, directory.string() + " is in use for something else; name another one with --dir");
  }
  return {};
}

}  // namespace

Result<ServiceRecord> start_service(const LocalServiceOptions& options, const std::function<void(std::string)>& say) {
  if (auto ok = check_programs(options.programs); !ok) return Failure(ok.error());
  if (auto ok = take_directory(options.directory); !ok) return Failure(ok.error());
  auto lock = lock_service(options.directory);
  if (!lock) return Failure(lock.error());
  auto before = read_record(options.directory);
  if (!before) return Failure(before.error());
  if (*before) {
    if ((*before)->running()) return **before;
    // Half of it has died: what is left would be in the way.
    say("Removing what a service that has died left behind");
    if (auto ok = stop_recorded(options.directory, **before); !ok) return Failure(ok.error());
    lock->reset();
    return start_service(options, say);
  }
  ServiceRecord record{.port = options.port,
                       .key = options.key,
                       .cgroup_parent = "osb-local-" + std::to_string(::getpid()),
                       .table = std::string(kTable),
                       .sandboxd = {},
                       .server = {}};
  (void)::chmod(options.directory.c_str(), 0711);
  if (auto ok = write_record(options.directory, record); !ok) return Failure(ok.error());
  if (auto ok = start_recorded(options, record, say); !ok) {
    (void)stop_recorded(options.directory, record);
    return Failure(ok.error());
  }
  return record;
}

Result<bool> stop_service(const fs::path& directory, const std::function<void(std::string)>& say) {
  auto record = read_record(directory);
  if (!record) return Failure(record.error());
  if (!*record) return false;
  auto lock = lock_service(directory);
  if (!lock) return Failure(lock.error());
  say("Stopping the server and sandboxd");
  if (auto ok = stop_recorded(directory, **record); !ok) return Failure(ok.error());
  return true;
}

}  // namespace osb::cli
