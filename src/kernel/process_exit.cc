#include "kernel/process_exit.h"

#include <charconv>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <fmt/format.h>

#include "sys/pidfd.h"
#include "sys/text_file.h"

namespace osb::kernel {
namespace {

// linux/pidfd.h of Linux 6.15; older headers do not have it.
struct PidfdInfo {
  std::uint64_t mask;
  std::uint64_t cgroup_id;
  std::uint32_t pid, tgid, ppid;
  std::uint32_t ids[8];
  std::int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr std::uint64_t kInfoExit = 1 << 3;
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);

struct Stat {
  char state = 0;
  std::uint64_t start_ticks = 0;
};

// "123 (any ) name) S 1 ..": the name may hold anything, so fields are counted from the last parenthesis.
Result<Stat> read_stat(pid_t pid) {
  const auto text = sys::read_text(fmt::format("/proc/{}/stat", pid));
  if (!text) {
    Error error = text.error();
    if (error.sys_errno == ESRCH) error.code = Code::NotFound;  // ended between open and read
    return Failure(error);
  }
  std::string_view rest = *text;
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= rest.size()) {
    return fail(Code::Internal, fmt::format("read /proc/{}/stat: not understood", pid));
  }
  rest.remove_prefix(name_end + 2);
  Stat out;
  out.state = rest.front();
  for (int field = 3; field < 22; ++field) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return fail(Code::Internal, fmt::format("read /proc/{}/stat: too short", pid));
    rest.remove_prefix(space + 1);
  }
  std::from_chars(rest.data(), rest.data() + rest.size(), out.start_ticks);
  return out;
}

// It does not change while we run.
const Result<std::string>& boot_id() {
  static const Result<std::string> id = [] {
    auto text = sys::read_text("/proc/sys/kernel/random/boot_id");
    if (text && text->ends_with('\n')) text->pop_back();
    return text;
  }();
  return id;
}

}  // namespace

Result<ProcessIdentity> identify(pid_t pid) {
  const Result<std::string>& boot = boot_id();
  if (!boot) return Failure(boot.error());
  const auto stat = read_stat(pid);
  if (!stat) return Failure(stat.error());
  return ProcessIdentity{*boot, pid, stat->start_ticks};
}

Result<UniqueFd> open_same(const ProcessIdentity& identity) {
  const auto gone = [&] { return fail(Code::NotFound, fmt::format("process {}: it has ended", identity.pid)); };
  const Result<std::string>& boot = boot_id();
  if (!boot) return Failure(boot.error());
  if (*boot != identity.boot_id || identity.pid <= 0) return gone();
  // The descriptor comes first: everything read after it is about the process it holds, or about no process.
  auto fd = sys::open_pidfd(identity.pid);
  if (!fd && fd.error().sys_errno == ESRCH) return gone();
  if (!fd) return fd;
  const auto stat = read_stat(identity.pid);
  if (!stat && stat.error().code != Code::NotFound) return Failure(stat.error());
  if (!stat || stat->start_ticks != identity.start_ticks || stat->state == 'Z' || stat->state == 'X') return gone();
  // A pid that was freed and given to another between the two would show that other's stat: our process had ended then.
  if (sys::wait_ended(fd->get(), std::chrono::milliseconds(0))) return gone();
  return fd;
}

std::optional<sys::ExitStatus> exit_of(int pidfd, std::chrono::milliseconds limit) {
  const auto ask = [&](PidfdInfo& info) {
    info.mask = kInfoExit;
    return ::ioctl(pidfd, kGetInfo, &info) == 0;
  };
  PidfdInfo info{};
  // Once the process is reaped, an old kernel fails here, and so does a newer one that was not asked in time.
  if (!ask(info)) return std::nullopt;
  if (!(info.mask & kInfoExit)) {
    pollfd reaped{pidfd, 0, 0};  // POLLHUP needs no asking
    if (::poll(&reaped, 1, static_cast<int>(limit.count())) <= 0) return std::nullopt;
    info = {};
    if (!ask(info) || !(info.mask & kInfoExit)) return std::nullopt;
  }
  sys::ExitStatus out;
  if (WIFSIGNALED(info.exit_code)) {
    out.signal = WTERMSIG(info.exit_code);
  } else {
    out.code = WEXITSTATUS(info.exit_code);
  }
  return out;
}

}  // namespace osb::kernel
