#pragma once

#include <functional>
#include <string>

#include "base/log.h"
#include "http/message.h"
#include "http/server.h"

namespace osb::http {

// Wrappers around a handler. Outside to inside: with_request_id(with_fence(..)), so that a 500 of the fence carries the
// id. The handler that these return outlives the requests it serves.

// Takes the id from X-Request-ID, or makes one when that is missing, blank, longer than 128 characters or not printable
// ASCII: it ends up in logs and headers. Sets request.request_id and X-Request-ID of every response, replacing a
// backend's own.
Handler with_request_id(Handler inner);

// An exception is a bug: one error line in the log, and a 500 problem that tells the client nothing about it. A
// cancelled request is no bug; its exception goes on to the session.
Handler with_fence(Handler inner, std::string code = "GENERAL::UNKNOWN_ERROR");

// For ServerOptions::on_complete: one line per request with method, path, status, bytes, milliseconds and request id.
// Query strings are left out: they carry tokens and file names. So is a token in the path (http/path_token.h).
std::function<void(const RequestSummary&)> access_log(LogLevel level = LogLevel::Info);

}  // namespace osb::http
