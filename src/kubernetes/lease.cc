#include "kubernetes/lease.h"

#include <algorithm>
#include <exception>

#include <boost/asio/this_coro.hpp>

#include "async/race.h"
#include "base/log.h"
#include "base/time.h"
#include "kubernetes/api_status.h"

namespace osb::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// MicroTime: six fractional digits, always.
std::string micro_time(std::chrono::system_clock::time_point now) {
  std::string out = format_timestamp(std::chrono::floor<std::chrono::microseconds>(now));
  if (!out.contains('.')) out.insert(out.size() - 1, ".000000");
  return out;
}

net::awaitable<void> store(net::awaitable<Result<void>> task, std::optional<Result<void>>& out) {
  out.emplace(co_await std::move(task));
}

}  // namespace

LeaseRecord LeaseRecord::parse(const json::object& lease) {
  LeaseRecord out;
  out.holder = text(lease, {"spec", "holderIdentity"});
  out.duration = std::chrono::seconds(std::max<std::int64_t>(0, number(lease, {"spec", "leaseDurationSeconds"})));
  out.acquired = text(lease, {"spec", "acquireTime"});
  out.renewed = text(lease, {"spec", "renewTime"});
  out.transitions = number(lease, {"spec", "leaseTransitions"});
  out.version = version_of(lease);
  return out;
}

json::object LeaseRecord::spec() const {
  json::object out{{"holderIdentity", holder},
                   {"leaseDurationSeconds", std::max<std::int64_t>(1, duration.count())},
                   {"leaseTransitions", transitions}};
  if (!acquired.empty()) out["acquireTime"] = acquired;
  if (!renewed.empty()) out["renewTime"] = renewed;
  return out;
}

LeaderElection::LeaderElection(Client& client, LeaseOptions options)
    : client_(client), options_(std::move(options)), pauses_(milliseconds(200), options_.renew_every) {}

void LeaderElection::saw(LeaseRecord record) {
  if (record.version != record_.version) seen_at_ = client_.clock().steady_now();
  record_ = std::move(record);
}

LeaseRecord LeaderElection::taken_over(const LeaseRecord& from) const {
  LeaseRecord mine = from;
  const std::string now = micro_time(client_.clock().now());
  if (from.holder != options_.identity) {
    mine.acquired = now;
    mine.transitions = from.version.empty() ? 0 : from.transitions + 1;
  }
  mine.holder = options_.identity;
  mine.duration = options_.duration;
  mine.renewed = now;
  return mine;
}

net::awaitable<Result<void>> LeaderElection::write(LeaseRecord record) {
  json::object lease{{"metadata", {{"name", options_.name}, {"namespace", options_.ns}}}, {"spec", record.spec()}};
  if (!record.version.empty()) make_object(lease, {"metadata"})["resourceVersion"] = record.version;
  auto written = record.version.empty() ? co_await client_.create(resources::kLeases, options_.ns, std::move(lease))
                                        : co_await client_.replace(ref(), std::move(lease));
  if (!written) co_return Failure(written.error());
  saw(LeaseRecord::parse(*written));
  co_return Result<void>();
}

net::awaitable<Result<bool>> LeaderElection::try_acquire() {
  auto found = co_await client_.get(ref());
  if (!found && !is_not_found(found.error())) co_return Failure(found.error());
  if (found) {
    saw(LeaseRecord::parse(*found));
  } else {
    record_ = {};
  }
  const auto now = client_.clock().steady_now();
  const bool free = record_.holder.empty() || record_.holder == options_.identity || now >= seen_at_ + record_.duration;
  if (!free) co_return false;
  auto written = co_await write(taken_over(record_));
  if (!written && (is_conflict(written.error()) || already_exists(written.error())))
    co_return false;  // others were faster
  if (!written) co_return Failure(written.error());
  renewed_at_ = now;
  co_return true;
}

net::awaitable<void> LeaderElection::watch_once() {
  auto watch = co_await client_.watch(resources::kLeases, options_.ns,
                                      {.fields = "metadata.name=" + options_.name, .version = record_.version});
  if (!watch) {
    (void)co_await client_.sleep(pauses_.next());
    co_return;
  }
  for (;;) {
    auto event = co_await (*watch)->next();
    if (!event || !*event) {
      (void)co_await client_.sleep(pauses_.next());
      co_return;
    }
    pauses_.reset();
    if ((*event)->type == WatchEvent::Type::Bookmark) continue;
    LeaseRecord next = LeaseRecord::parse(*(*event)->object);
    const bool lives_on = (*event)->type != WatchEvent::Type::Deleted && next.holder == record_.holder;
    saw(std::move(next));
    // A renewal only moves the end of the wait, which the caller looks at.
    if (!lives_on) co_return;
  }
}

net::awaitable<void> LeaderElection::sleep_until_free() {
  for (;;) {
    const nanoseconds left = seen_at_ + record_.duration - client_.clock().steady_now();
    if (left.count() <= 0 || !co_await client_.sleep(left)) co_return;
  }
}

net::awaitable<void> LeaderElection::wait_for_change() {
  using namespace race;
  if (record_.version.empty() || client_.clock().steady_now() >= seen_at_ + record_.duration) {
    (void)co_await client_.sleep(pauses_.next());
    co_return;
  }
  (void)co_await (watch_once() || sleep_until_free());
}

net::awaitable<Result<void>> LeaderElection::acquire() {
  for (;;) {
    auto done = co_await try_acquire();
    if ((co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none) {
      co_return fail(Code::Cancelled, "cancelled");
    }
    if (done && *done) co_return Result<void>();
    if (!done) {
      log_warn("lease not readable", {{"lease", options_.name}, {"error", done.error().message}});
      if (!co_await client_.sleep(pauses_.next())) co_return fail(Code::Cancelled, "cancelled");
      continue;
    }
    co_await wait_for_change();
  }
}

// True: the lease is ours for another while, or may be: an attempt failed and another one follows.
net::awaitable<bool> LeaderElection::renew() {
  using namespace race;
  const auto now = client_.clock().steady_now();
  const nanoseconds left = renewed_at_ + options_.renew_deadline - now;
  if (left.count() <= 0) co_return false;
  std::optional<Result<void>> written;
  (void)co_await (store(write(taken_over(record_)), written) || client_.sleep(left));
  if (written && *written) {
    renewed_at_ = now;
    co_return true;
  }
  if (!written) co_return false;
  if (is_conflict(written->error())) {
    // Another process has written it. If it still names us, it was only touched.
    auto found = co_await client_.get(ref());
    if (found) saw(LeaseRecord::parse(*found));
    if (found && record_.holder != options_.identity) co_return false;
  }
  if (is_not_found(written->error())) record_.version.clear();  // deleted by hand: made anew
  log_warn("lease not renewed", {{"lease", options_.name}, {"error", written->error().message}});
  co_return true;
}

net::awaitable<void> LeaderElection::keep() {
  for (;;) {
    // Not beyond the deadline: it is looked at when it comes.
    const nanoseconds left = renewed_at_ + options_.renew_deadline - client_.clock().steady_now();
    const nanoseconds pause = std::clamp<nanoseconds>(left, nanoseconds(0), options_.renew_every);
    if (!co_await client_.sleep(pause) || !co_await renew()) co_return;
  }
}

net::awaitable<void> LeaderElection::release() {
  LeaseRecord free = record_;
  free.holder.clear();
  free.duration = std::chrono::seconds(1);
  free.renewed = micro_time(client_.clock().now());
  if (auto written = co_await write(std::move(free)); !written) {
    log_warn("lease not released", {{"lease", options_.name}, {"error", written.error().message}});
  }
}

net::awaitable<Result<void>> LeaderElection::lead(std::function<net::awaitable<void>()> work) {
  using namespace race;
  if (auto got = co_await acquire(); !got) co_return got;
  leads_ = true;
  log_info("leading", {{"lease", options_.name}, {"identity", options_.identity}});
  bool lost = false;
  std::exception_ptr thrown;
  try {
    lost = (co_await (work() || keep())).index() == 1;
  } catch (...) {
    thrown = std::current_exception();
  }
  leads_ = false;
  const bool cancelled = (co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none;
  if (lost && !cancelled) {
    log_warn("leadership lost", {{"lease", options_.name}, {"holder", record_.holder}});
    co_return fail(Code::Unavailable, "lease " + options_.ns + "/" + options_.name + " was lost");
  }
  co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
  co_await release();
  co_await net::this_coro::reset_cancellation_state(net::enable_terminal_cancellation());
  if (cancelled) co_return fail(Code::Cancelled, "cancelled");
  if (thrown) std::rethrow_exception(thrown);
  co_return Result<void>();
}

}  // namespace osb::kubernetes
