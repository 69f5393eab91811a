#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "async/net.h"
#include "async/timer.h"
#include "base/clock.h"
#include "base/error.h"
#include "runtime/lifecycle.h"

namespace osb::server {

// Whether the backend answers, and if not, why. One loop; its arguments outlive it.
class BackendPresence {
 public:
  BackendPresence(net::any_io_executor executor, const Clock& clock, runtime::Lifecycle& backend);

  // The backend has told everything it has.
  void note_found();
  // And what it has told is in the records.
  void note_reconciled() { reconciled_.notify_all(); }
  // The backend does not answer. True: it did until now, or this is the first word about it.
  bool note_lost(const Error& why);

  bool is_here() const { return here_.is_set(); }
  // Until it answers. False: cancelled.
  net::awaitable<bool> wait() { return here_.wait(); }
  // Until the backend has told everything once more, at most for `limit`: the pause before another try.
  net::awaitable<void> wait_reconciled(std::chrono::milliseconds limit);
  // Asks a backend that is away once more. Waits for a moment if it has been away for no longer than a restart takes,
  // and for the first word after our own start. True: it answers.
  net::awaitable<bool> look_again();
  // "" while it answers.
  const std::string& why_not() const { return why_not_; }

 private:
  bool is_restarting() const;

  const Clock& clock_;
  runtime::Lifecycle& backend_;
  Event here_;
  Notifier word_;  // an event of the backend has arrived
  Notifier reconciled_;
  std::uint64_t words_ = 0;  // how often
  std::string why_not_ = "the server has just started and has not heard of it yet";
  std::chrono::steady_clock::time_point lost_at_{};
};

}  // namespace osb::server
