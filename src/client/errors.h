#pragma once

#include <opensandbox/error.h>
#include <string>
#include <string_view>

#include "base/error.h"

namespace opensandbox {

// Errors of this library, each kind with its code.
Failure network_error(std::string message);
Failure invalid_response(std::string message, std::string request_id = {});
Failure invalid_argument(std::string message);
Failure cancelled(std::string message);
Failure local_error(std::string message);
Failure wake_timeout(std::string_view request_id);
Failure pool_error(std::string code, std::string message);

// An error of the transport or of a decoder: no answer, or one that cannot be read.
Failure from_transport(const osb::Error& error);

// Of an answer with a status from 400 on: {"code","message"}, execd's {"error"}, plain text.
Error api_error(int status, std::string_view body, std::string_view request_id);

}  // namespace opensandbox
