#pragma once

#include <string>
#include <utility>

#include "api/native.h"
#include "http/client.h"
#include "sandboxd/sandbox/sandbox_plan.h"

namespace osb::sandboxd {

// Sends a request to a sandbox's execd on a connection of its own.
inline net::awaitable<Result<http::ClientResponse>> ask_execd(http::Client& client,
                                                              const api::native::SandboxStatus& status,
                                                              std::string method, std::string target) {
  http::ClientRequest request;
  request.method = std::move(method);
  request.target = std::move(target);
  request.headers.set("X-EXECD-ACCESS-TOKEN", status.execd_token);
  request.headers.set("Connection", "close");
  return client.send(
      status.execd_socket.empty() ? status.address + ":" + std::to_string(kExecdPort) : "unix:" + status.execd_socket,
      std::move(request));
}

}  // namespace osb::sandboxd
