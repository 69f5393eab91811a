#pragma once

#include "http/message.h"
#include "server/service/sandbox_service.h"

namespace osb::server {

// Gateways and clients know by it that a request was not forwarded because its sandbox did not wake in time.
inline constexpr std::string_view kWakeHeader = "OpenSandbox-Wake";

// Before a request is forwarded: a sandbox with an idlePolicy that is paused, or on its way there or back, is resumed,
// and `record` is then the running one. Others are left as they are. `record` and the service outlive the call.
net::awaitable<Result<void>> wake_for_access(SandboxService& service, SandboxPtr& record);

// A sandbox that is being paused refuses connections. If that is why a request failed that found it as `record`, the
// request was not forwarded and may be sent again: the error for access_refusal(). Nothing otherwise.
std::optional<Error> fell_asleep(const SandboxService& service, const SandboxRecord& record, const Error& why);

// The answer to a request that is not forwarded. One that did not wake in time may be sent again, whatever its method.
http::Response access_refusal(const Error& error);

}  // namespace osb::server
