#pragma once

#include "async/net.h"
#include "base/error.h"
#include "http/message.h"
#include "server/service/sandbox_service.h"

namespace osb::server {

// A sandbox whose ports can be asked.
struct Reached {
  SandboxPtr record;
  const runtime::Instance* instance = nullptr;  // never null; valid until the caller waits for something
};

// Waits for a sandbox that is being created and wakes one that sleeps because it was idle. Code::Conflict: it does not
// run. `renew`: the access moves the deadline where the sandbox was made so.
net::awaitable<Result<Reached>> reach_running(SandboxService& service, SandboxPtr record, bool renew);

// Whether this request may move the deadline: one that only asks whether the sandbox is there must not keep it there.
bool renews(const http::Request& request);

}  // namespace osb::server
