#pragma once

#include <memory>

#include "async/net.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "http/reactor.h"

namespace osb::http {

// A listening socket on the loop's reactor.
class Listener {
 public:
  Listener(net::any_io_executor executor, UniqueFd socket);
  ~Listener() { close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // The next connection (non-blocking, close-on-exec). Unavailable: the machine is out of descriptors or memory, try
  // again later. Any other error: the listener is closed or broken.
  net::awaitable<Result<UniqueFd>> accept();
  void close();

 private:
  Reactor& reactor_;
  UniqueFd socket_;
  std::shared_ptr<Reactor::Entry> entry_ = std::make_shared<Reactor::Entry>();
};

}  // namespace osb::http
