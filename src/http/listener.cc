#include "http/listener.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>

#include "sys/syscall.h"

namespace osb::http {

Listener::Listener(net::any_io_executor executor, UniqueFd socket)
    : reactor_(net::use_service<Reactor>(net::query(executor, net::execution::context))), socket_(std::move(socket)) {
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
  reactor_.add(socket_.get(), *entry_);
}

net::awaitable<Result<UniqueFd>> Listener::accept() {
  for (;;) {
    if (!socket_) co_return fail(Code::Cancelled, "listener closed");
    UniqueFd accepted(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted) co_return accepted;
    switch (errno) {
      case EINTR:
      case ECONNABORTED:
      case EPROTO:
      case EPERM:  // a firewall refused this one
        continue;
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        co_return Failure(Error(Code::Unavailable, "accept: " + std::generic_category().message(errno), errno));
      case EAGAIN:
        break;
      default:
        co_return sys::from_errno("accept", errno);
    }
    entry_->no_more_to_read();
    if (auto ready = co_await reactor_.wait(entry_, true); !ready) co_return Failure(ready.error());
  }
}

void Listener::close() {
  if (!socket_) return;
  reactor_.remove(*entry_);
  socket_.reset();
}

}  // namespace osb::http
