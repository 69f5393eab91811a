#include "execd/run/output_pipe.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace osb::execd {
namespace {

// For processes that write a lot: fewer switches between writer and reader. Others keep the default 64 KiB.
constexpr int kLargePipe = 1024 * 1024;

}  // namespace

Result<sys::Pipe> make_output_pipe() {
  auto pipe = sys::make_pipe();
  if (pipe && ::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK) < 0) return sys::from_errno("pipe O_NONBLOCK", errno);
  return pipe;
}

std::string_view OutputPipe::read(std::span<char> buffer, std::size_t limit) {
  const ssize_t n = ::read(file.native_handle(), buffer.data(), std::min(limit, buffer.size()));
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (n <= 0) {
    file.close();
    return {};
  }
  if (!large && static_cast<std::size_t>(n) == buffer.size()) {
    large = true;  // an unprivileged user may have used up its share of pipe memory: then it stays as it is
    ::fcntl(file.native_handle(), F_SETPIPE_SZ, kLargePipe);
  }
  return {buffer.data(), static_cast<std::size_t>(n)};
}

void OutputPipe::count_rest() {
  int bytes = 0;
  if (file.is_open() && ::ioctl(file.native_handle(), FIONREAD, &bytes) == 0) left = static_cast<std::size_t>(bytes);
}

}  // namespace osb::execd
