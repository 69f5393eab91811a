#include "execd/isolated/session_maker.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "execd/isolated/packet.h"
#include "execd/isolated/session_init.h"
#include "execd/isolated/session_root.h"
#include "execd/isolated/session_user.h"
#include "execd/isolated/session_walls.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMaxSpec = 1024 * 1024;
constexpr std::string_view kHostname = "sandbox";

Result<SessionSpec> receive_spec() {
  auto packet = receive_packet(kMakerControlFd);
  if (!packet) return Failure(packet.error());
  if (!*packet || (*packet)->fds.size() != 1) return fail(Code::InvalidRequest, "no description of the session came");
  auto bytes = read_memory_file((*packet)->fds.front().get(), kMaxSpec);
  if (!bytes) return Failure(bytes.error());
  return decode_session_spec(*bytes);
}

// Of a network of the session's own. Where we may not, it has no loopback either.
void raise_loopback() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (socket) ::ioctl(socket.get(), SIOCSIFFLAGS, &request);
}

struct Maker {
  bool direct = false;
  bool limited = false;
  std::uint64_t capabilities = kSessionCapabilities;

  Result<void> unshare_from(const SessionSpec& spec) const {
    const int flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | (direct ? CLONE_NEWPID : 0) |
                      (spec.share_net ? 0 : CLONE_NEWNET);
    if (::unshare(flags) < 0) return sys::from_errno("make the session's namespaces", errno);
    if (!direct) return {};
    const pid_t pid = ::fork();
    if (pid < 0) return sys::from_errno("fork", errno);
    if (pid > 0) ::_exit(0);  // the session is execd's child now
    return {};
  }

  Result<void> run() const {
    const auto spec = receive_spec();
    if (!spec) return Failure(spec.error());
    if (auto done = unshare_from(*spec); !done) return done;
    if (::sethostname(kHostname.data(), kHostname.size()) < 0) return sys::from_errno("set the host name", errno);
    if (!spec->share_net) raise_loopback();
    // The session's own /proc may be read-only.
    UniqueFd proc(::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!proc) return sys::from_errno("open /proc", errno);
    const auto layers = enter_session_root(*spec, direct);
    if (!layers) return Failure(layers.error());
    const int filter = direct ? -1 : kMakerFilterFd;
    SessionUser user;
    if (spec->user_namespace) {
      const int limit = limited ? kMakerLimitFd : -1;
      auto started = start_session_user(*spec, {proc.get(), limit, capabilities, filter});
      if (!started) return Failure(started.error());
      user = std::move(*started);
    }
    proc.reset();
    if (limited) ::close(kMakerLimitFd);
    const auto walls = raise_session_walls(capabilities, filter);
    if (!walls) return Failure(walls.error());
    if (filter >= 0) ::close(filter);
    const std::string report = session_message::kReady +
                               pack_strings({walls->cap_drop.state, walls->cap_drop.message, walls->seccomp.state,
                                             walls->seccomp.message, walls->landlock.state, walls->landlock.message});
    if (auto sent = send_packet(kMakerControlFd, report); !sent) return sent;
    serve_session(kMakerControlFd, *spec, *layers, std::move(user));
  }
};

}  // namespace

void make_session(int argc, char** argv) {
  ::prctl(PR_SET_DUMPABLE, 0);
  ::umask(022);
  ::fcntl(kMakerControlFd, F_SETFD, FD_CLOEXEC);
  ::fcntl(kMakerFilterFd, F_SETFD, FD_CLOEXEC);
  ::fcntl(kMakerLimitFd, F_SETFD, FD_CLOEXEC);
  Maker maker;
  maker.direct = argc > 0 && std::strcmp(argv[0], "direct") == 0;
  // Never the right to administer, also where the sandbox has it: a session's processes would reach all of it.
  if (!maker.direct) maker.capabilities &= argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 0;
  maker.limited = !maker.direct && argc > 2 && std::strcmp(argv[2], "limited") == 0;
  const auto done = maker.run();
  const Code code = done.error().code;
  const char kind = code == Code::InvalidRequest ? session_message::kTooLarge
                    : code == Code::Unsupported  ? session_message::kUnsupported
                                                 : session_message::kFailed;
  (void)send_packet(kMakerControlFd, kind + done.error().message);
  ::_exit(1);
}

}  // namespace osb::execd
