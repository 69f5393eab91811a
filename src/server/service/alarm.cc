#include "server/service/alarm.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <sys/timerfd.h>

#include <boost/asio/this_coro.hpp>

#include "sys/syscall.h"

namespace osb::server {

Result<Alarm> Alarm::open(net::any_io_executor executor) {
  UniqueFd fd(::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (fd.get() < 0) return sys::from_errno("timerfd_create", errno);
  auto timer = Descriptor::open(executor, std::move(fd));
  if (!timer) return Failure(timer.error());
  return Alarm(std::move(*timer));
}

net::awaitable<bool> Alarm::wait_until(std::optional<Timestamp> when) {
  itimerspec setting{};
  if (when) {
    // Zero would disarm it.
    const std::int64_t us = std::max<std::int64_t>(when->time_since_epoch().count(), 1);
    setting.it_value.tv_sec = us / 1'000'000;
    setting.it_value.tv_nsec = us % 1'000'000 * 1000;
  }
  if (::timerfd_settime(timer_.fd(), TFD_TIMER_ABSTIME, &setting, nullptr) < 0) co_return false;
  std::uint64_t expirations = 0;
  const auto got = co_await timer_.read_some({reinterpret_cast<char*>(&expirations), sizeof expirations});
  co_return got.has_value();
}

}  // namespace osb::server
