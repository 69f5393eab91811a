#include "async/directory_watch.h"

#include <cerrno>
#include <cstring>
#include <sys/inotify.h>

#include "sys/syscall.h"

namespace osb {

Result<DirectoryWatch> DirectoryWatch::open(net::any_io_executor executor, const std::string& path) {
  UniqueFd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd) return sys::from_errno("inotify_init", errno);
  constexpr std::uint32_t kEvents =
      IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
  if (::inotify_add_watch(fd.get(), path.c_str(), kEvents) < 0) return sys::from_errno("watch " + path, errno);
  auto descriptor = Descriptor::open(std::move(executor), std::move(fd));
  if (!descriptor) return Failure(descriptor.error());
  return DirectoryWatch(std::move(*descriptor), path);
}

net::awaitable<Result<void>> DirectoryWatch::changed() {
  alignas(inotify_event) char buffer[4096];
  const auto size = co_await inotify_.read_some(buffer);
  if (!size) co_return Failure(size.error());
  for (std::size_t at = 0; at + sizeof(inotify_event) <= *size;) {
    inotify_event event;
    std::memcpy(&event, buffer + at, sizeof event);
    at += sizeof event + event.len;
    if ((event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) != 0)
      co_return fail(Code::NotFound, path_ + ": the directory was removed or moved away");
  }
  co_return Result<void>();
}

}  // namespace osb
