#pragma once

#include "base/error.h"

namespace osb::http {

// The status of a response that reports such an error. Also declared in http/message.h.
int status_of(Code code);
// The reverse, for answers of other servers: Code::Internal for a status that status_of() never gives.
Code code_of(int status);

}  // namespace osb::http
