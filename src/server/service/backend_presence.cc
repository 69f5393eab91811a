#include "server/service/backend_presence.h"

#include "async/race.h"

namespace osb::server {

using namespace race;

namespace {

// A backend that has been away for longer is not restarting.
constexpr std::chrono::milliseconds kRestart(1500);
// A backend that is away is noticed at once: its socket refuses. This limit is for a backend that is there and takes
// long, such as an engine that lists hundreds of containers.
constexpr std::chrono::seconds kWordWait(5);

}  // namespace

BackendPresence::BackendPresence(net::any_io_executor executor, const Clock& clock, runtime::Lifecycle& backend)
    : clock_(clock), backend_(backend), here_(executor), word_(executor), reconciled_(executor) {}

void BackendPresence::note_found() {
  ++words_;
  why_not_.clear();
  here_.set();
  word_.notify_all();
}

bool BackendPresence::note_lost(const Error& why) {
  const bool news = here_.is_set() || words_ == 0;
  if (news) lost_at_ = clock_.steady_now();
  ++words_;
  why_not_ = why.message;
  here_.clear();
  word_.notify_all();
  return news;
}

bool BackendPresence::is_restarting() const { return clock_.steady_now() - lost_at_ < kRestart; }

net::awaitable<void> BackendPresence::wait_reconciled(std::chrono::milliseconds limit) {
  (void)co_await (reconciled_.wait() || sleep_for(limit));
}

net::awaitable<bool> BackendPresence::look_again() {
  if (words_ == 0) (void)co_await (word_.wait_until([this] { return words_ > 0; }) || sleep_for(kWordWait));
  if (here_.is_set()) co_return true;
  const std::uint64_t before = words_;
  backend_.look_again();
  const auto answered = [this, before] { return here_.is_set() || (words_ != before && !is_restarting()); };
  (void)co_await (word_.wait_until(answered) || sleep_for(kWordWait));
  co_return here_.is_set();
}

}  // namespace osb::server
