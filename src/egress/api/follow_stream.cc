#include "egress/api/follow_stream.h"

#include "async/race.h"
#include "async/timer.h"
#include "egress/api/policy_api.h"

namespace osb::egress {
namespace {

constexpr std::chrono::seconds kKeepAlive{15};

net::awaitable<Result<void>> send_changes(SandboxPtr sandbox, const FollowedList& list, http::BodyWriter& out) {
  using namespace race;
  std::uint64_t seen = 0;
  if (auto sent = co_await out.flush(); !sent) co_return sent;
  while (!list.closed(*sandbox)) {
    const std::string events = list.events(*sandbox, seen);
    if (!events.empty()) {
      if (auto sent = co_await out.write(events); !sent) co_return sent;
      continue;
    }
    const auto first = co_await (list.wait(*sandbox) || sleep_for(kKeepAlive));
    if (first.index() == 1) {
      if (!std::get<1>(first)) co_return Result<void>();
      if (auto sent = co_await out.write(": still there\n\n"); !sent) co_return sent;
    }
  }
  co_return Result<void>();
}

net::awaitable<Result<void>> follow(SandboxPtr sandbox, FollowedList list, http::BodyWriter& out) {
  using namespace race;
  auto first = co_await (send_changes(std::move(sandbox), list, out) || out.peer_closed());
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  co_return Result<void>();
}

}  // namespace

http::Response follow_response(const SandboxPtr& sandbox, FollowedList list) {
  return http::event_stream(
      [sandbox, list = std::move(list)](http::BodyWriter& out) { return follow(sandbox, list, out); });
}

std::optional<http::Response> refuse_unless_read(const http::Request& request) {
  if (request.method == "GET" || request.method == "HEAD") return std::nullopt;
  auto refused = plain_error(405, "method not allowed");
  refused.headers.set("Allow", "GET");
  return refused;
}

}  // namespace osb::egress
