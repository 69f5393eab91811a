#pragma once

#include "egress/sandbox/sandbox.h"
#include "http/message.h"

namespace osb::egress {

// GET /decisions: {"decisions": [...]}, the oldest change first. With ?follow=true an event stream: first those that
// are there, then each that changes, until the client or the sandbox goes.
http::Response decisions_response(const SandboxPtr& sandbox, const http::Request& request);

}  // namespace osb::egress
