#include "server/service/creation.h"

#include "api/lifecycle_error.h"

namespace osb::server {

Error create_failure(Error error, std::string_view backend) {
  // Codes of a cluster have statuses of their own: 403 for a quota, 504 for a pod that is late.
  if (error.reason.starts_with("KUBERNETES::")) return error;
  if (error.reason.empty()) error.reason = api::backend_reason(backend, "SANDBOX_START_FAILED");
  switch (error.code) {
    case Code::InvalidRequest:
    case Code::Unprocessable:
    case Code::Exhausted:
    case Code::Unavailable:
      break;
    case Code::Unsupported:
      // The backend cannot do what the request asks for: another request may work.
      error.code = Code::InvalidRequest;
      break;
    case Code::NotFound:
    case Code::Conflict:
      // The request named a snapshot. Everything else that is missing or in the way is the server's trouble: a 404
      // of a create would be taken for a wrong address.
      if (error.reason.starts_with("SNAPSHOT::")) break;
      [[fallthrough]];
    default:
      error.code = Code::Internal;
  }
  return error;
}

}  // namespace osb::server
