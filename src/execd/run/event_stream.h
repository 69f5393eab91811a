#pragma once

#include <cstdint>
#include <memory>

#include "async/net.h"
#include "base/error.h"
#include "execd/run/event_log.h"
#include "http/body.h"

namespace osb::execd {

// Sends the events behind number `after` until the log ends, and a ping (without a number) every three seconds. As long
// as it runs it is a reader of the log, so a peer that does not take the bytes holds the command back. Fails when the
// connection does; the command goes on without it.
net::awaitable<Result<void>> stream_events(std::shared_ptr<EventLog> log, std::uint64_t after,
                                           http::BodyWriter& writer);

}  // namespace osb::execd
