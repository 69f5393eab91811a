#include "http/reactor.h"

#include <array>
#include <utility>
#include <vector>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>

namespace osb::http {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::uint32_t kEvents = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
constexpr std::size_t kEventsAtOnce = 64;
constexpr int kRoundsAtOnce = 4;
// Deadlines may be this late; in return a busy server does not touch its timer.
constexpr std::chrono::milliseconds kTimerGrain{500};

}  // namespace

net::execution_context::id Reactor::id;

Reactor::Reactor(net::execution_context& context)
    : net::execution_context::service(context),
      io_(static_cast<net::io_context&>(context)),
      epoll_(io_, ::epoll_create1(EPOLL_CLOEXEC)),
      timer_(io_) {}

void Reactor::shutdown() {
  std::vector<Waiter> dropped;  // destroying a waiter destroys its coroutine, which may call remove()
  for (Entry* entry : entries_) {
    if (entry->read_waiter) dropped.push_back(std::exchange(entry->read_waiter, nullptr));
    if (entry->write_waiter) dropped.push_back(std::exchange(entry->write_waiter, nullptr));
  }
  waiting_ = 0;
}

bool Reactor::add(int fd, Entry& entry) {
  epoll_event event{.events = kEvents, .data = {.ptr = &entry}};
  if (::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, fd, &event) < 0) return false;
  entry.fd = fd;
  entry.place = entries_.insert(entries_.end(), &entry);
  return true;
}

void Reactor::remove(Entry& entry) {
  if (entry.fd < 0) return;
  ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_DEL, entry.fd, nullptr);
  entry.fd = -1;
  entries_.erase(entry.place);
  cancel(entry, true, Outcome::Closed);
  cancel(entry, false, Outcome::Closed);
}

SteadyClock::time_point Reactor::now() {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return SteadyClock::time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

net::awaitable<Result<void>> Reactor::wait(std::shared_ptr<Entry> entry, bool reading) {
  if (entry->fd < 0) co_return fail(Code::Cancelled, "connection closed");
  if (reading ? entry->readable : entry->writable) co_return Result<void>();
  if (entry->deadline && *entry->deadline <= now()) co_return fail(Code::Timeout, "timed out");
  // Deferred, not use_awaitable: that would be one more coroutine, for every wait.
  const Outcome outcome = co_await net::async_initiate<const net::deferred_t, void(Outcome)>(
      [this, &entry, reading](auto handler) {
        auto slot = net::get_associated_cancellation_slot(handler);
        if (slot.is_connected()) {
          // Keeps the entry, not its owner: that may go before the waiter has run.
          slot.assign([this, entry, reading](net::cancellation_type) { cancel(*entry, reading, Outcome::Cancelled); });
        }
        start_wait(*entry, reading, [handler = std::move(handler), slot](Outcome outcome) mutable {
          if (slot.is_connected()) slot.clear();
          std::move(handler)(outcome);
        });
      },
      net::deferred);
  if (outcome == Outcome::Ready) co_return Result<void>();
  if (outcome == Outcome::Timeout) co_return fail(Code::Timeout, "timed out");
  co_return fail(Code::Cancelled, "connection closed");
}

void Reactor::start_wait(Entry& entry, bool reading, Waiter waiter) {
  if (reading ? !entry.read_exhausted : !entry.write_exhausted) rearm_edge(entry);
  (reading ? entry.read_waiter : entry.write_waiter) = std::move(waiter);
  waiting_began(entry);
}

void Reactor::cancel(Entry& entry, bool reading, Outcome outcome) {
  Waiter& slot = reading ? entry.read_waiter : entry.write_waiter;
  if (!slot) return;
  net::post(io_, [waiter = std::exchange(slot, nullptr), outcome]() mutable { waiter(outcome); });
  waiting_ended();
}

void Reactor::rearm_edge(const Entry& entry) {
  epoll_event event{.events = kEvents, .data = {.ptr = const_cast<Entry*>(&entry)}};
  ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_MOD, entry.fd, &event);
}

void Reactor::waiting_began(const Entry& entry) {
  ++waiting_;
  if (entry.deadline) arm_timer(*entry.deadline);
  arm();
}

void Reactor::waiting_ended() {
  // A loop without waiters must be able to run out of work.
  if (--waiting_ == 0) {
    epoll_.cancel();
    timer_.cancel();
    timer_due_.reset();
  }
}

void Reactor::arm() {
  if (armed_) return;
  armed_ = true;
  epoll_.async_wait(net::posix::stream_descriptor::wait_read, [this](boost::system::error_code ec) {
    armed_ = false;
    if (!ec) drain();
    if (waiting_ > 0) arm();
  });
}

void Reactor::drain() {
  // Under load the next events are there when these are served: asking again is one system call, going back to Asio
  // would be three. Bounded, so that timers and everything else on the loop get their turn.
  for (int round = 0; round < kRoundsAtOnce && waiting_ > 0; ++round) {
    if (!serve_events()) break;
  }
  if (waiting_ == 0) {
    // A waiter of the first round may have armed it for a wait that a later round has served.
    if (armed_) epoll_.cancel();
    timer_.cancel();
    timer_due_.reset();
  }
}

bool Reactor::serve_events() {
  std::array<epoll_event, kEventsAtOnce> events;
  const int count = ::epoll_wait(epoll_.native_handle(), events.data(), events.size(), 0);
  // First note everything, then run waiters: they may close other sockets of this batch.
  ready_.clear();
  for (int i = 0; i < count; ++i) {
    Entry& entry = *static_cast<Entry*>(events[i].data.ptr);
    const std::uint32_t got = events[i].events;
    if (got & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
      entry.hangup = true;
      if (entry.on_hangup) hung_up_.push_back(&entry);
    }
    if (got & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
      entry.readable = true;
      entry.read_exhausted = false;
      if (entry.read_waiter) ready_.push_back(std::exchange(entry.read_waiter, nullptr));
    }
    if (got & (EPOLLOUT | EPOLLHUP | EPOLLERR)) {
      entry.writable = true;
      entry.write_exhausted = false;
      if (entry.write_waiter) ready_.push_back(std::exchange(entry.write_waiter, nullptr));
    }
  }
  waiting_ -= ready_.size();
  // Before the waiters, which may destroy any entry.
  for (Entry* entry : hung_up_) {
    if (entry->on_hangup) std::exchange(entry->on_hangup, nullptr)();
  }
  hung_up_.clear();
  for (Waiter& waiter : ready_) std::exchange(waiter, nullptr)(Outcome::Ready);
  return count > 0;
}

void Reactor::deadline_changed(const Entry& entry) {
  if (entry.deadline && (entry.read_waiter || entry.write_waiter)) arm_timer(*entry.deadline);
}

void Reactor::arm_timer(SteadyClock::time_point when) {
  if (timer_due_ && *timer_due_ <= when + kTimerGrain) return;
  timer_due_ = when;
  timer_.expires_at(when);
  timer_.async_wait([this](boost::system::error_code ec) {
    if (!ec) expire(SteadyClock::now());
  });
}

void Reactor::expire(SteadyClock::time_point now) {
  timer_due_.reset();
  std::optional<SteadyClock::time_point> next;
  std::vector<Entry*> late;
  for (Entry* entry : entries_) {
    if (!entry->deadline || (!entry->read_waiter && !entry->write_waiter)) continue;
    if (*entry->deadline <= now) {
      late.push_back(entry);
    } else if (!next || *entry->deadline < *next) {
      next = entry->deadline;
    }
  }
  for (Entry* entry : late) {  // cancel() posts, so nothing runs while we hold these pointers
    cancel(*entry, true, Outcome::Timeout);
    cancel(*entry, false, Outcome::Timeout);
  }
  if (next && waiting_ > 0) arm_timer(*next + kTimerGrain);
}

}  // namespace osb::http
