#pragma once

#include <string>

#include "http/client.h"
#include "http/message.h"
#include "http/reverse_proxy.h"
#include "intercept/rules.h"

namespace osb::intercept {

// The requests of one connection to one host that is opened. Each is judged anew, goes to the host that the connection
// was made for or nowhere, and its answer comes back without secrets.
class OpenedConnection {
 public:
  // `scheme`: "https" or "http". References outlive the object.
  OpenedConnection(Rules& rules, http::Client& client, Flow flow, std::string scheme, std::string host);

  net::awaitable<http::Response> handle(http::Request& request);

 private:
  std::optional<http::Response> refuse(const http::Request& request) const;
  net::awaitable<http::Response> forward(http::Request& request, const Verdict& verdict);
  http::ProxyTarget target_for(const http::Request& request, const Verdict& verdict) const;
  void clean(http::Response& response, const Verdict& verdict) const;

  Rules& rules_;
  http::Client& client_;
  const Flow flow_;
  const std::string scheme_;
  const std::string host_;
  const std::string origin_;
};

}  // namespace osb::intercept
