#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "async/net.h"
#include "base/error.h"

namespace osb::tls {

// IPv4 or IPv6 in digits, without brackets or zone.
bool is_ip_address(const std::string& host);

// Names into IP addresses, by the system's rules (getaddrinfo: hosts file, DNS, order of RFC 6724). Nothing is cached.
//
// getaddrinfo cannot be interrupted, so it runs on threads that are abandoned when the caller's time is up or the
// resolver goes; they exist only while there is something to look up, and never touch the loop after the resolver's
// end. One executor (one thread) per resolver; it must go before its io_context.
class Resolver {
 public:
  explicit Resolver(net::any_io_executor executor);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // At least one address, in the order to try them. An IP address is its own answer. NotFound: no such name;
  // Unavailable: the name servers do not answer; Timeout.
  net::awaitable<Result<std::vector<std::string>>> resolve(std::string host, std::chrono::milliseconds timeout);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace osb::tls
