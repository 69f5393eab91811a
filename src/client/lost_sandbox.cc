#include "client/sandbox_state.h"

namespace opensandbox::async {
namespace {

// The cause that a sandbox's state gives for a lost connection; nothing if the state explains nothing.
std::optional<Error> cause_in(const SandboxInfo& info) {
  const std::string& state = info.status.state;
  const std::string name = "sandbox " + info.id;
  if (state == state::kPaused || state == state::kPausing) {
    // Network: the call can be made again when the sandbox runs.
    return Error{.kind = ErrorKind::Network,
                 .code = "SANDBOX_PAUSED",
                 .message = name + " is paused: resume it with osb sandbox resume " + info.id};
  }
  if (state == state::kFailed || state == state::kTerminated || state == state::kStopping) {
    Error error{.kind = ErrorKind::Unhealthy, .code = "SANDBOX_ENDED", .message = name + " has ended"};
    if (state == state::kStopping) error.message = name + " is being removed";
    if (!info.status.message.empty()) error.message += ": " + info.status.message;
    return error;
  }
  return std::nullopt;
}

}  // namespace

net::awaitable<Error> explain(SandboxPtr sandbox, Error error) {
  // The server's proxy knows that the sandbox does not run, but not why.
  const bool not_running = error.kind == ErrorKind::Api && error.code.ends_with("SANDBOX_NOT_RUNNING");
  if (error.kind != ErrorKind::Network && !not_running) co_return error;
  auto info = co_await SandboxManager(sandbox->client()).get(sandbox->id());
  if (info) co_return cause_in(*info).value_or(std::move(error));
  // The server's own words: "sandbox X expired at ..", "was deleted at ..".
  if (info.error().not_found()) co_return std::move(info.error());
  co_return error;
}

net::awaitable<Failure> explained(SandboxPtr sandbox, Error error) {
  co_return Failure(co_await explain(std::move(sandbox), std::move(error)));
}

}  // namespace opensandbox::async
