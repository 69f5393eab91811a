#pragma once

#include "http/message.h"
#include "runtime/backend.h"
#include "server/service/sandbox_service.h"

namespace osb::server {

// An entrypoint's output as a stream of events, framed as execd frames its own. While the sandbox is being created, the
// stream waits. A reader that takes nothing slows the backend: nothing piles up here. The last event is `end`, or
// `error` when the sandbox is removed, the backend is lost or the service closes. The caller has checked that the
// client may see `record`; the stream shows no other. The service outlives the stream.
http::Response log_stream(SandboxService& service, SandboxPtr record, runtime::LogsFrom from);

}  // namespace osb::server
