#include "http/linger.h"

#include <vector>

#include "base/deadline.h"

namespace osb::http {

net::awaitable<void> linger(Transport& transport) {
  transport.shutdown_write();
  const Deadline deadline(std::chrono::seconds(2));
  std::vector<char> sink(16 * 1024);
  for (auto left = deadline.left(); left.count() > 0; left = deadline.left()) {
    transport.set_timeout(left);
    auto got = co_await transport.read_some(sink);
    if (!got || *got == 0) co_return;
  }
}

}  // namespace osb::http
