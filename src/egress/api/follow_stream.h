#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "egress/sandbox/sandbox.h"
#include "http/message.h"

namespace osb::egress {

// A list of a sandbox that grows.
struct FollowedList {
  // The items after number `seen` as events of a stream, and the number of the last one into `seen`.
  std::function<std::string(Sandbox& sandbox, std::uint64_t& seen)> events;
  // Until there may be more.
  std::function<net::awaitable<bool>(Sandbox& sandbox)> wait;
  std::function<bool(const Sandbox& sandbox)> closed;
};

// An event stream: first the items that are there, then each that is added, until the client or the sandbox goes.
http::Response follow_response(const SandboxPtr& sandbox, FollowedList list);

// The answer to methods other than GET and HEAD; nothing for those.
std::optional<http::Response> refuse_unless_read(const http::Request& request);

}  // namespace osb::egress
