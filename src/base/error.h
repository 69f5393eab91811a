#pragma once

#include <expected>
#include <string>
#include <utility>

namespace osb {

// The kind of a failure. It decides the HTTP status unless a layer above sets another one.
enum class Code {
  Internal,
  InvalidRequest,
  Unprocessable,  // of the wrong type or range, where a contract tells that from a value that cannot be served
  Unauthorized,
  Forbidden,
  NotFound,
  Conflict,
  TooLarge,
  Exhausted,  // no capacity now; worth trying again later
  Unsupported,
  Unavailable,
  Timeout,
  Cancelled,
};

struct Error {
  Error() = default;
  Error(Code c, std::string m, int e = 0) : code(c), message(std::move(m)), sys_errno(e) {}

  Code code = Code::Internal;
  std::string reason;   // the contract's code ("SANDBOX::NOT_FOUND"), set where the contract is known
  std::string message;  // names the thing and, where possible, what to do: "open memory.max: .."
  int sys_errno = 0;    // 0 when no system call was involved
};

template <typename T>
using Result = std::expected<T, Error>;

// A failing function returns it, and a caller passes it on: return Failure(result.error());
using Failure = std::unexpected<Error>;

inline Failure fail(Code code, std::string message) { return Failure(Error(code, std::move(message))); }

// Passes an error on with what the caller was doing in front: "create sandbox: open memory.max: ..".
inline Failure with_context(std::string doing, Error error) {
  error.message = std::move(doing) + ": " + error.message;
  return Failure(std::move(error));
}

}  // namespace osb
