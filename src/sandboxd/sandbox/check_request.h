#pragma once

#include "api/native.h"
#include "base/error.h"
#include "policy/policy.h"

namespace osb::sandboxd {

// The checks of a request that need no lookup, beyond the types of its fields: before anything is made or
// pulled. Code::InvalidRequest, or Code::Unsupported for another machine's platform, with the field's JSON
// pointer.
//   hostname   goes into files as it is: letters, digits, '-', '_' and '.'
//   platform   images are run, not emulated: this host's or none
//   shm_bytes  0 means "as much as you like" to the kernel
//   ulimits    so low that execd itself would not start, or beyond what the kernel gives
Result<void> check_request(const api::native::CreateSandbox& spec);

// The network policy of a request, if it has one. Code::InvalidRequest, Code::TooLarge (too many rules), or
// Code::Unsupported with a network mode where no packets pass the host's rules; the messages name the field.
Result<std::optional<policy::Policy>> network_policy_of(const api::native::CreateSandbox& spec);

}  // namespace osb::sandboxd
