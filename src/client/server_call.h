#pragma once

#include <opensandbox/async.h>
#include <string>
#include <string_view>

#include "client/errors.h"
#include "client/wire.h"

// Calls to the server, as SandboxManager makes them.
namespace opensandbox::async {

template <typename T>
Task<T> failed(Failure failure) {
  co_return failure;
}

inline std::string sandbox_target(const std::string& id, std::string_view rest = "") {
  return "/sandboxes/" + encode(id).append(rest);
}

inline Failure no_id(std::string_view what) { return invalid_argument(std::string(what) + ": must not be empty"); }

// One call to the server whose answer is decoded.
template <typename T>
Task<T> ask(ClientState state, Call call, Result<T> (*decode)(const Reply&)) {
  auto reply = co_await state->call(state->server, std::move(call));
  if (!reply) co_return Failure(std::move(reply.error()));
  co_return decode(*reply);
}

inline Task<void> tell(ClientState state, Call call) {
  auto reply = co_await state->call(state->server, std::move(call));
  if (!reply) co_return Failure(std::move(reply.error()));
  co_return Result<void>();
}

inline Task<std::string> text(ClientState state, Call call) {
  auto reply = co_await state->call(state->server, std::move(call));
  if (!reply) co_return Failure(std::move(reply.error()));
  co_return std::move(reply->body);
}

}  // namespace opensandbox::async
