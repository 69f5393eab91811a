#pragma once

#include <limits>
#include <memory>
#include <utility>

#include "async/net.h"
#include "async/timer.h"

namespace osb::server {

class Admission;

inline constexpr int kNoLimit = std::numeric_limits<int>::max() / 2;

// A place among the creates, given back when it goes.
class AdmissionTicket {
 public:
  explicit AdmissionTicket(Admission& admission) : admission_(admission) {}
  ~AdmissionTicket();
  AdmissionTicket(const AdmissionTicket&) = delete;
  AdmissionTicket& operator=(const AdmissionTicket&) = delete;

  // Until it may begin. False: cancelled.
  net::awaitable<bool> wait_turn();

 private:
  friend class Admission;
  Admission& admission_;
  bool running_ = false;
};

// How many creates are handed to the backend at once, and how many may wait behind them. One loop; outlives its
// tickets.
class Admission {
 public:
  Admission(net::any_io_executor executor, int running, int queued)
      : max_running_(running), max_queued_(queued), turn_(std::move(executor)) {}

  // Running creates go on, even if they exceed the new limit.
  void set_limits(int running, int queued) {
    max_running_ = running;
    max_queued_ = queued;
    turn_.notify_all();
  }
  bool full() const { return tickets_ >= max_running_ + max_queued_; }
  // A place even when it is full: for creates that were accepted by an earlier process.
  std::shared_ptr<AdmissionTicket> enter() {
    ++tickets_;
    return std::make_shared<AdmissionTicket>(*this);
  }
  int waiting() const { return tickets_ - running_; }
  int running() const { return running_; }

 private:
  friend class AdmissionTicket;
  int max_running_, max_queued_;
  int tickets_ = 0, running_ = 0;
  Notifier turn_;
};

inline AdmissionTicket::~AdmissionTicket() {
  --admission_.tickets_;
  if (!running_) return;
  --admission_.running_;
  admission_.turn_.notify_one();
}

inline net::awaitable<bool> AdmissionTicket::wait_turn() {
  while (admission_.running_ >= admission_.max_running_) {
    if (!co_await admission_.turn_.wait()) co_return false;
  }
  ++admission_.running_;
  running_ = true;
  co_return true;
}

}  // namespace osb::server
