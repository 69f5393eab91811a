#include "egress/sidecar/overlay_files.h"

#include <array>
#include <sys/inotify.h>

#include "sys/staged_file.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::egress {
namespace {

Result<std::string> read_or_empty(const std::string& path) {
  auto text = sys::read_text(path, 4 << 20);
  if (!text && text.error().code == Code::NotFound) return std::string();
  return text;
}

}  // namespace

Result<OverlayFiles> OverlayFiles::open(net::any_io_executor executor, std::string directory) {
  if (auto made = sys::make_directories(directory, 0755); !made) return Failure(made.error());
  UniqueFd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (watch.get() < 0) return sys::from_errno("inotify", errno);
  // Moves too: tools write a new file and rename it, Kubernetes renames a link.
  constexpr std::uint32_t kEvents =
      IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE | IN_ATTRIB | IN_DELETE_SELF;
  if (::inotify_add_watch(watch.get(), directory.c_str(), kEvents) < 0) {
    return sys::from_errno("watch " + directory, errno);
  }
  auto descriptor = Descriptor::open(std::move(executor), std::move(watch));
  if (!descriptor) return Failure(descriptor.error());
  return OverlayFiles(std::move(directory), std::move(*descriptor));
}

Result<OverlayFiles::Texts> OverlayFiles::read() const {
  auto deny = read_or_empty(directory_ + "/deny.always");
  if (!deny) return Failure(deny.error());
  auto allow = read_or_empty(directory_ + "/allow.always");
  if (!allow) return Failure(allow.error());
  return Texts{std::move(*deny), std::move(*allow)};
}

net::awaitable<bool> OverlayFiles::changed() {
  std::array<char, 4096> events;
  const auto got = co_await watch_.read_some(events);
  co_return got && *got > 0;
}

}  // namespace osb::egress
