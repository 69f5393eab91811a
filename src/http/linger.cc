#include "http/linger.h"

#include <vector>

namespace osb::http {

net::awaitable<void> linger(Transport& transport) {
  transport.shutdown_write();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::vector<char> sink(16 * 1024);
  while (std::chrono::steady_clock::now() < until) {
    transport.set_deadline(until);
    auto got = co_await transport.read_some(sink);
    if (!got || *got == 0) co_return;
  }
}

}  // namespace osb::http
