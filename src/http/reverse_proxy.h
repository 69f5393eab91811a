#pragma once

#include <string>
#include <string_view>

#include "http/client.h"
#include "http/message.h"

namespace osb::http {

// In an answer that a proxy has made because its upstream gave none: BACKEND_CONNECTION_FAILED, BACKEND_TIMEOUT or
// BACKEND_RESPONSE_FAILED. execd tells the server so. An upstream that sends it itself spoils only its own answer.
inline constexpr std::string_view kProxyFailureHeader = "X-OpenSandbox-Proxy-Failure";

// For ports of programs that users wrote. A program with a full queue of connections drops further ones, and the kernel
// repeats them after 1, 3 and 7 seconds. Clients give up after 30: they shall hear the reason before. The client
// decides how long it waits for the answer.
inline constexpr ClientTimeouts kPortTimeouts{.connect = std::chrono::seconds(10), .head = {}, .body_stall = {}};

struct ProxyTarget {
  std::string origin;             // for the client's pool
  std::string target;             // path and query to ask for, passed on as it is
  std::string host;               // Host header to send; empty: the client's own
  Headers add;                    // set on the forwarded request, replacing what is there
  std::vector<std::string> drop;  // request headers not to pass on
  bool confidential = false;      // `target` and `add` hold secrets, see ClientRequest
  ClientTimeouts timeouts;
  // Makes the answer when upstream gives none. Empty: a problem, 504 if upstream was too slow and 502 otherwise.
  std::function<Response(const Error&)> on_error;
};

// Forwards the request, whose headers are used up, and returns upstream's answer. Bodies of any size pass through
// without being held whole, either side can hold the other back, hop-by-hop headers go, repeated headers stay apart,
// upgrades become a byte splice in both directions that survives half-closed sides, WebSockets a relay that also tells
// each side when the other is lost (websocket_relay.h). A client that leaves takes the
// upstream request with it; before the answer it cannot be told from one that has only ended its side, which still gets
// what upstream says within `timeouts.after_hangup`. Upstream unreachable: 502; too slow: 504; as problems with
// `error_code`, unless the target has an answer of its own. The client and `error_code` outlive the response.
net::awaitable<Response> forward(Client& client, Request& request, ProxyTarget target,
                                 std::string_view error_code = "PROXY::UPSTREAM_ERROR");

}  // namespace osb::http
