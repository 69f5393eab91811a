#include "sandboxd/sandbox/session_requests.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "async/race.h"
#include "base/log.h"
#include "sandboxd/launch/seccomp_profile.h"
#include "sandboxd/launch/session_launch.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

using namespace race;

// The directory is the sandbox's to write: whatever stands at the name goes, and nothing is followed.
Result<UniqueFd> listen_in(const std::string& directory) {
  auto opened = sys::open_at(AT_FDCWD, directory, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  if (!opened) return Failure(opened.error());
  struct stat info{};
  if (::fstat(opened->get(), &info) < 0) return sys::from_errno("stat " + directory, errno);
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return sys::from_errno("socket", errno);
  ::fchmod(socket.get(), 0600);
  if (::unlinkat(opened->get(), kSessionSocket, 0) < 0 && errno != ENOENT) return sys::from_errno("unlink", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(opened->get()) + "/" + kSessionSocket;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) < 0) {
    return sys::from_errno("bind " + directory + "/" + kSessionSocket, errno);
  }
  if (::fchownat(opened->get(), kSessionSocket, info.st_uid, info.st_gid, AT_SYMLINK_NOFOLLOW) < 0) {
    return sys::from_errno("chown " + directory + "/" + kSessionSocket, errno);
  }
  if (::listen(socket.get(), 16) < 0) return sys::from_errno("listen", errno);
  return socket;
}

}  // namespace

void SessionRequests::serve(const EntryPtr& entry) {
  if (!entry->record.spec.isolated_sessions || !entry->live || !entry->live->pidfd) return;
  if (!context_.config().exec_label.empty() || !entry->record.spec.runtime.empty() ||
      !entry->record.native_class.empty()) {
    // Creates are refused; this one is of an earlier daemon. A session's processes would be without that label, outside
    // of that runtime, or behind another filter than that of the class.
    return log_warn("no isolated sessions with a label, a class or another runtime", {{"id", entry->id()}});
  }
  auto socket = listen_in(context_.config().tree(entry->id()) + "/run");
  auto listener = socket ? Descriptor::open(context_.executor, std::move(*socket)) : Failure(socket.error());
  auto ended = Descriptor::open(context_.executor, UniqueFd(::fcntl(entry->live->pidfd.get(), F_DUPFD_CLOEXEC, 3)));
  if (!listener || !ended) {
    const Error& error = !listener ? listener.error() : ended.error();
    return log_error("no isolated sessions", {{"id", entry->id()}, {"error", error.message}});
  }
  context_.tasks.spawn("isolated sessions", accept(entry, std::move(*listener), std::move(*ended)));
}

net::awaitable<void> SessionRequests::accept(EntryPtr entry, Descriptor listener, Descriptor ended) {
  for (;;) {
    const auto woken = co_await (listener.wait_readable() || ended.wait_readable());
    if (woken.index() == 1 || !std::get<0>(woken)) break;
    UniqueFd connection(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) continue;
    if (!entry->live) break;
    co_await start(entry, std::move(connection));
  }
}

net::awaitable<void> SessionRequests::start(EntryPtr entry, UniqueFd connection) {
  const auto seccomp = seccomp_program({.nested_user_namespaces = entry->record.spec.nested_user_namespaces});
  if (!seccomp) co_return;
  SessionLaunchPlan plan;
  const UniqueFd sandbox(::fcntl(entry->live->pidfd.get(), F_DUPFD_CLOEXEC, 3));
  plan.sandbox = sandbox.get();
  plan.pid = entry->record.status.pid;
  plan.seccomp = *seccomp;
  plan.nested_user_namespaces = entry->record.spec.nested_user_namespaces;
  plan.connection = connection.get();
  const std::string id = entry->id();
  const auto launched = co_await launches_.run([&]() -> Result<void> {
    auto program = sys::open_at(AT_FDCWD, context_.config().execd, O_PATH);
    if (!program) return Failure(program.error());
    plan.program = program->get();
    auto cgroup = context_.builder.parts().cgroups.open_existing(id);
    if (!cgroup) return Failure(cgroup.error());
    auto join = (*cgroup)->open_join();
    if (!join) return Failure(join.error());
    plan.v2_cgroup = join->v2_directory.get();
    for (const UniqueFd& tasks : join->v1_tasks) plan.v1_tasks.push_back(tasks.get());
    return launch_session(plan);
  });
  if (!launched) {
    log_warn("isolated session not started", {{"id", id}, {"error", launched.error().message}});
  }
}

}  // namespace osb::sandboxd
