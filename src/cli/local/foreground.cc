#include "cli/local/foreground.h"

#include <array>
#include <cerrno>
#include <poll.h>

#include "sys/pidfd.h"

namespace osb::cli {

Result<Foreground::End> Foreground::wait(const ServiceRecord& record) {
  if (!record.sandboxd || !record.server) return fail(Code::Internal, "the service does not run");
  const auto sandboxd = sys::open_pidfd(record.sandboxd->pid);
  if (!sandboxd || !record.sandboxd->alive()) return End{0, "sandboxd"};
  const auto server = sys::open_pidfd(record.server->pid);
  if (!server || !record.server->alive()) return End{0, "opensandbox-server"};
  std::array<pollfd, 3> waits{pollfd{signals_.fd(), POLLIN, 0}, pollfd{sandboxd->get(), POLLIN, 0},
                              pollfd{server->get(), POLLIN, 0}};
  for (;;) {
    while (::poll(waits.data(), waits.size(), -1) < 0 && errno == EINTR) {
    }
    if (const auto signal = signals_.take()) return End{*signal};
    if (waits[1].revents != 0) return End{0, "sandboxd"};
    if (waits[2].revents != 0) return End{0, "opensandbox-server"};
  }
}

}  // namespace osb::cli
