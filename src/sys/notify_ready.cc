#include "sys/notify_ready.h"

#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/unique_fd.h"

namespace osb::sys {

void notify_ready() {
  const char* variable = std::getenv("NOTIFY_SOCKET");
  const std::string_view path = variable != nullptr ? variable : "";
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path) return;
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  if (path.front() == '@') address.sun_path[0] = '\0';  // an abstract socket
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  constexpr std::string_view kReady = "READY=1";
  (void)::sendto(fd.get(), kReady.data(), kReady.size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address), length);
}

}  // namespace osb::sys
