#pragma once

#include <optional>

#include "http/message.h"
#include "http/web_rules.h"
#include "server/access/authenticator.h"

namespace osb::server {

// Keeps web pages away from the API. A page in a user's browser reaches a server on the user's machine or network;
// without a key nothing else would stop it from running code. One loop.
//
// Without a key: only names of this machine and `rules.hosts` in Host, no page of another origin, and JSON in the body.
// With a key, which no page has: `rules.origins` may read answers in browsers; other requests are served as before.
class WebGuard {
 public:
  WebGuard(const Authenticator& authenticator, http::WebRules rules);
  void set_rules(http::WebRules rules) { rules_ = std::move(rules); }

  // The answer to a request that must not be served.
  std::optional<http::Response> refusal(const http::Request& request) const;
  // The origin of the page that asks, if answers must name it for the browser.
  const std::string* foreign_origin(const http::Request& request) const;
  // Adds the fields that let a page of an allowed origin read the answer.
  void let_read(http::Response& response, const std::string& origin) const;

 private:
  std::optional<http::Response> refusal_without_key(const http::Request& request) const;

  const Authenticator& authenticator_;
  http::WebRules rules_;
};

// Answers preflights too; they reach neither `inner` nor authentication. `guard` outlives the handler.
http::Handler with_web_guard(http::Handler inner, const WebGuard& guard);

}  // namespace osb::server
