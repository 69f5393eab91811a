#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <sys/epoll.h>
#include <vector>

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "async/net.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::http {

// Socket readiness for one io_context. Asio's own waits cost a system call each (a speculative read, or an epoll_ctl
// to arm); here every socket is registered once, edge-triggered, in an epoll set of our own that Asio watches as one
// descriptor, so that a request on a kept-alive connection costs one recv and one send. Also holds the coarse
// deadlines: one timer for all sockets instead of one each. Internal to module http.
class Reactor : public net::execution_context::service {
 public:
  static net::execution_context::id id;

  enum class Outcome { Ready, Timeout, Closed, Cancelled };
  using Waiter = std::move_only_function<void(Outcome)>;

  // The state of one socket; lives in its transport, at a fixed address, from add() to remove().
  struct Entry {
    // Readiness that an edge reported and that no read or write has used up yet.
    bool readable = true;
    bool writable = true;
    // A short read or EAGAIN proved that the next edge will come; without that proof a wait re-arms.
    bool read_exhausted = false;
    bool write_exhausted = false;
    bool hangup = false;  // the peer has ended its side: short reads prove nothing any more
    int fd = -1;
    Waiter read_waiter;
    Waiter write_waiter;
    std::move_only_function<void()> on_hangup;  // see Transport
    std::optional<std::chrono::steady_clock::time_point> deadline;
    std::list<Entry*>::iterator place;

    void no_more_to_read() { readable = false, read_exhausted = true; }
    void no_more_room() { writable = false, write_exhausted = true; }
  };

  explicit Reactor(net::execution_context& context);

  // Suspends until the direction (reading or writing) is worth a try; at once if an edge came since the last one.
  // Code::Timeout when the entry's deadline has passed, Code::Cancelled when it was removed or the wait cancelled.
  net::awaitable<Result<void>> wait(std::shared_ptr<Entry> entry, bool reading);
  // Deadlines are coarse and set for every request: the clock for them, without the counter's cost.
  static std::chrono::steady_clock::time_point now();

  bool add(int fd, Entry& entry);  // false: errno says why
  void remove(Entry& entry);       // waiters get Closed
  // Ends the waits of one direction (true: reading) with `outcome`, from the loop, never inline.
  void cancel(Entry& entry, bool reading, Outcome outcome);
  void deadline_changed(const Entry& entry);
  // Ends the waits whose deadline has passed at `now`. A timer calls it, and tests that move time.
  void expire(std::chrono::steady_clock::time_point now);

 private:
  void shutdown() override;
  void start_wait(Entry& entry, bool reading, Waiter waiter);
  void waiting_began(const Entry& entry);
  void waiting_ended();
  void arm();
  void drain();
  bool serve_events();  // false: there were none
  void arm_timer(std::chrono::steady_clock::time_point when);
  void rearm_edge(const Entry& entry);

  net::io_context& io_;
  net::posix::stream_descriptor epoll_;
  net::steady_timer timer_;
  std::optional<std::chrono::steady_clock::time_point> timer_due_;
  std::list<Entry*> entries_;
  // Of the batch being served; kept for their memory.
  std::vector<Waiter> ready_;
  std::vector<Entry*> hung_up_;  // those with a hangup to report to on_hangup()
  std::size_t waiting_ = 0;
  bool armed_ = false;
};

}  // namespace osb::http
