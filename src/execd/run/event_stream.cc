#include "execd/run/event_stream.h"

#include <chrono>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/time.h"
#include "execd/run/event_writer.h"

namespace osb::execd {

net::awaitable<Result<void>> stream_events(std::shared_ptr<EventLog> log, std::uint64_t after,
                                           http::BodyWriter& writer) {
  constexpr std::chrono::seconds kPing(3);
  // One timer is both the next ping and, when cancelled, the news that there are events.
  net::steady_timer timer(co_await net::this_coro::executor, kPing);
  EventReader reader(std::move(log), after, [&timer] { timer.cancel(); });
  for (;;) {
    if (const auto events = reader.next(); !events.empty()) {
      if (auto sent = co_await writer.write(events); !sent) co_return sent;
      continue;
    }
    if (reader.at_end()) co_return Result<void>();
    const auto [news] = co_await timer.async_wait(net::as_tuple(net::use_awaitable));
    if (news) continue;
    if (auto sent = co_await writer.write(ping_event(unix_millis())); !sent) co_return sent;
    timer.expires_after(kPing);
  }
}

}  // namespace osb::execd
