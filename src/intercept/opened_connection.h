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

  // The answer to a request that is not even judged: its Host disagrees with the connection, it has a form that the
  // host could read in another way, or the policy denies the host by now. Nothing: it may be judged.
  std::optional<http::Response> refuse(const http::Request& request) const;

  const Flow& flow() const { return flow_; }
  const std::string& host() const { return host_; }
  const std::string& origin() const { return origin_; }

 private:
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
