#pragma once

#include "egress/sandbox/sandbox.h"
#include "http/message.h"

namespace osb::egress {

// GET /credential-vault/audit: {"lines": [...]}, the oldest first. With ?follow=true an event stream: first the lines
// that are there, then each new one, until the client or the sandbox goes. Not in the published contract.
http::Response audit_response(const SandboxPtr& sandbox, const http::Request& request);

}  // namespace osb::egress
