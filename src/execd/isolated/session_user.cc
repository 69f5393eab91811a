#include "execd/isolated/session_user.h"

#include <cerrno>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <string>
#include <string_view>
#include <unistd.h>

#include "execd/isolated/packet.h"
#include "execd/isolated/session_init.h"
#include "execd/isolated/session_maker.h"
#include "execd/isolated/session_walls.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

// As many as there may be sessions.
constexpr std::string_view kOpenLimit = "256";

Result<void> unsupported(const std::string& what, int error) {
  auto failure = sys::from_errno(what, error);
  failure.error().code = Code::Unsupported;
  return failure;
}

Result<void> write_map(int proc, const std::string& name, const std::string& text) {
  const UniqueFd file(::openat(proc, ("self/" + name).c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return unsupported("open " + name, errno);
  if (::write(file.get(), text.data(), text.size()) < 0) return unsupported("write " + name, errno);
  return {};
}

// Our user and group get the numbers of the request.
Result<void> enter_user_namespace(const SessionSpec& spec, int proc) {
  const uid_t uid = spec.uid.value_or(0);
  const gid_t gid = spec.gid.value_or(uid);
  const std::string users = std::to_string(uid) + " " + std::to_string(::geteuid()) + " 1";
  const std::string groups = std::to_string(gid) + " " + std::to_string(::getegid()) + " 1";
  if (::setgroups(0, nullptr) < 0) return sys::from_errno("give up groups", errno);
  if (::unshare(CLONE_NEWUSER) < 0) return unsupported("make a user namespace", errno);
  // The kernel asks for this before a group may be named.
  if (auto done = write_map(proc, "setgroups", "deny"); !done) return done;
  if (auto done = write_map(proc, "uid_map", users); !done) return done;
  if (auto done = write_map(proc, "gid_map", groups); !done) return done;
  if (::setresgid(gid, gid, gid) < 0 || ::setresuid(uid, uid, uid) < 0) return sys::from_errno("switch user", errno);
  return {};
}

Result<void> prepare(const SessionSpec& spec, const SessionUserParts& parts) {
  if (auto done = enter_user_namespace(spec, parts.proc); !done) return done;
  // A user other than root has none, as after a switch from root.
  const auto walls = raise_session_walls(spec.uid.value_or(0) == 0 ? parts.capabilities : 0, parts.filter);
  if (!walls) return Failure(walls.error());
  return {};
}

[[noreturn]] void run_session_user(UniqueFd socket, SessionSpec spec, const SessionUserParts& parts) {
  if (auto done = prepare(spec, parts); !done) {
    const bool unsupported = done.error().code == Code::Unsupported;
    (void)send_packet(socket.get(),
                      (unsupported ? session_message::kUnsupported : session_message::kFailed) + done.error().message);
    ::_exit(1);
  }
  // Nothing of the first process stays open here: not its control socket, nor the directories of its overlays.
  if (::dup3(socket.get(), kMakerControlFd, O_CLOEXEC) < 0) ::_exit(1);
  ::close_range(kMakerControlFd + 1, ~0U, 0);
  if (!send_packet(kMakerControlFd, {&session_message::kReady, 1})) ::_exit(1);
  spec.uid.reset();  // it has become that user
  spec.gid.reset();
  const std::vector<SessionLayer> none;
  serve_session(kMakerControlFd, spec, none);
}

Result<SessionUser> start(const SessionSpec& spec, const SessionUserParts& parts) {
  auto sockets = make_packet_sockets();
  if (!sockets) return Failure(sockets.error());
  const pid_t pid = ::fork();
  if (pid < 0) return sys::from_errno("fork", errno);
  if (pid == 0) run_session_user(std::move(sockets->second), spec, parts);
  sockets->second.reset();
  auto answer = receive_packet(sockets->first.get());
  if (!answer) return Failure(answer.error());
  if (!*answer || (*answer)->data.empty()) return fail(Code::Internal, "the process of the session's user ended");
  const std::string& data = (*answer)->data;
  if (data[0] == session_message::kUnsupported) return fail(Code::Unsupported, data.substr(1));
  if (data[0] != session_message::kReady) return fail(Code::Internal, data.substr(1));
  // Its processes can stop it, and its queue fills up then. That must not hold the first process up.
  if (::fcntl(sockets->first.get(), F_SETFL, O_NONBLOCK) < 0) return sys::from_errno("fcntl", errno);
  return SessionUser{pid, std::move(sockets->first)};
}

void set_limit(int file, std::string_view number) {
  if (file >= 0) (void)!::pwrite(file, number.data(), number.size(), 0);
}

}  // namespace

Result<SessionUser> start_session_user(const SessionSpec& spec, const SessionUserParts& parts) {
  constexpr int kTries = 64;
  for (int tries = 1;; ++tries) {
    set_limit(parts.limit, kOpenLimit);
    auto started = start(spec, parts);
    set_limit(parts.limit, "0");
    // Another session that is made at this moment may have closed the limit before we have used it.
    const bool again = !started && started.error().code == Code::Unsupported && parts.limit >= 0 && tries < kTries;
    if (!again) return started;
  }
}

}  // namespace osb::execd
