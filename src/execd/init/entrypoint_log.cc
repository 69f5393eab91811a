#include "execd/init/entrypoint_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "base/timespec.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMostParts = 512;             // of one writev(); the kernel takes 1024
constexpr std::size_t kAtOnce = 32 << 10;           // read from the pipe
constexpr std::size_t kBeforeOthers = 1024 * 1024;  // copied before the thread is given back

iovec part_of(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }

}  // namespace

// How many bytes of the parts the file has taken; fewer than all when it takes no more.
std::size_t TimedLogWriter::put(std::vector<iovec>& parts) {
  std::size_t done = 0;
  for (auto next = parts.begin(); next != parts.end();) {
    const ssize_t size = ::writev(file_.get(), &*next, static_cast<int>(parts.end() - next));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      why_ = size < 0 ? errno : ENOSPC;
      break;
    }
    done += static_cast<std::size_t>(size);
    for (auto left = static_cast<std::size_t>(size); left > 0;) {
      const std::size_t step = std::min(left, next->iov_len);
      auto* const begin = static_cast<char*>(next->iov_base);
      in_line_ = begin[step - 1] != '\n';
      left -= step;
      *next = {begin + step, next->iov_len - step};
      if (next->iov_len == 0) ++next;
    }
  }
  return done;
}

bool TimedLogWriter::tell_loss(const LogStamp& stamp) {
  std::string note = in_line_ ? "\n" : "";
  note.append(stamp.data(), stamp.size());
  note += "execd: " + std::to_string(lost_) +
          " bytes of output are missing here: " + std::generic_category().message(why_) + "\n";
  std::vector<iovec> parts = {part_of(note)};
  return put(parts) == note.size();
}

void TimedLogWriter::write(std::string_view bytes, const timespec& now) {
  const LogStamp stamp = make_log_stamp(now);
  if (lost_ > 0) {
    if (!tell_loss(stamp)) {
      lost_ += bytes.size();
      return;
    }
    lost_ = 0;
  }
  std::vector<iovec> parts;
  bool in_line = in_line_;
  while (!bytes.empty()) {
    const std::string_view rest = bytes;
    std::size_t stamps = 0, wanted = 0;
    parts.clear();
    while (!bytes.empty() && parts.size() + 2 <= kMostParts) {
      if (!in_line) {
        parts.push_back({const_cast<char*>(stamp.data()), stamp.size()});
        ++stamps;
      }
      const std::size_t newline = bytes.find('\n');
      in_line = newline == std::string_view::npos;
      const std::size_t size = in_line ? bytes.size() : newline + 1;
      parts.push_back(part_of(bytes.substr(0, size)));
      wanted += size;
      bytes.remove_prefix(size);
    }
    const std::size_t done = put(parts);
    if (done == wanted + stamps * stamp.size()) continue;
    // Near enough: a stamp or two may count as output.
    lost_ = rest.size() - std::min(rest.size(), done);
    lost_ = std::max<std::uint64_t>(lost_, 1);
    return;
  }
}

void TimedLogWriter::write_lines(std::string_view lines, const timespec& now) {
  if (in_line_) write("\n", now);
  write(lines, now);
}

Result<std::unique_ptr<EntrypointLog>> EntrypointLog::open(net::any_io_executor executor, BlockingPool& pool,
                                                           UniqueFd file) {
  auto pipe = sys::make_pipe();
  if (!pipe) return Failure(pipe.error());
  // Programs under another user may open /dev/stdout, but not read what others have written.
  (void)::fchmod(pipe->write.get(), 0622);
  const int flags = ::fcntl(pipe->read.get(), F_GETFL);
  if (::fcntl(pipe->read.get(), F_SETFL, flags | O_NONBLOCK) < 0) return sys::from_errno("pipe", errno);
  auto reader = Descriptor::open(executor, std::move(pipe->read));
  if (!reader) return Failure(reader.error());
  return std::unique_ptr<EntrypointLog>(
      new EntrypointLog(pool, std::move(*reader), std::move(pipe->write), std::move(file)));
}

// False: the pipe has ended.
bool EntrypointLog::copy(std::size_t most) {
  const std::lock_guard lock(mutex_);
  std::array<char, kAtOnce> buffer;
  while (most > 0) {
    const ssize_t size = ::read(reader_.fd(), buffer.data(), std::min(buffer.size(), most));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return true;
    if (size == 0) return false;
    log_.write({buffer.data(), static_cast<std::size_t>(size)}, timespec_now());
    most -= static_cast<std::size_t>(size);
  }
  return true;
}

net::awaitable<void> EntrypointLog::run() {
  for (;;) {
    const auto readable = co_await reader_.wait_readable();
    if (!readable) co_return;
    const bool more = co_await pool_.run([this] { return copy(kBeforeOthers); });
    if (!more) co_return;
  }
}

void EntrypointLog::drain() {
  int waiting = 0;
  // A child that writes without an end cannot delay us: only output from before counts.
  if (::ioctl(reader_.fd(), FIONREAD, &waiting) == 0 && waiting > 0) (void)copy(static_cast<std::size_t>(waiting));
  // run() may be writing what it took out of the pipe.
  const std::lock_guard lock(mutex_);
}

void EntrypointLog::append(std::string_view lines) {
  const std::lock_guard lock(mutex_);
  log_.write_lines(lines, timespec_now());
}

}  // namespace osb::execd
