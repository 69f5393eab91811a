#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "http/message.h"

namespace osb::http {

// Routes by path and method. Patterns: "/sandboxes/{id}", "/x/{port:int}" (decimal digits only, else the route does not
// match), "/proxy/{port}/{rest*}" (the raw remainder, may be empty or contain slashes, must be last). A literal segment
// beats a parameter. A trailing slash on the request path is ignored unless a tail takes it.
// HEAD is answered by the GET handler. Unknown path: 404; known path, other method: 405 with Allow; both as problems.
//
// Segments are compared after percent-decoding, so an encoded slash stays inside its segment. Dot segments are not
// resolved and empty segments match no parameter. A broken escape or a NUL outside a tail is a 400. Where several
// routes fit the path, the most literal one that has the method wins, segment by segment: literal, int, parameter,
// tail.
class Router {
 public:
  // The contract's codes for what the router answers itself.
  struct Codes {
    std::string not_found = "GENERAL::NOT_FOUND";
    std::string method_not_allowed = "GENERAL::METHOD_NOT_ALLOWED";
    std::string bad_path = "GENERAL::INVALID_REQUEST";
  };

  Router();
  explicit Router(Codes codes);
  ~Router();
  Router(Router&&) noexcept;
  Router& operator=(Router&&) noexcept;

  // Throws std::logic_error for a malformed pattern or a route that is there already: both are bugs at start-up.
  // Method "*" takes every method that has no route of its own.
  void add(std::string_view method, std::string_view pattern, Handler handler);
  void get(std::string_view pattern, Handler handler) { add("GET", pattern, std::move(handler)); }
  void post(std::string_view pattern, Handler handler) { add("POST", pattern, std::move(handler)); }
  void put(std::string_view pattern, Handler handler) { add("PUT", pattern, std::move(handler)); }
  void patch(std::string_view pattern, Handler handler) { add("PATCH", pattern, std::move(handler)); }
  void del(std::string_view pattern, Handler handler) { add("DELETE", pattern, std::move(handler)); }

  // Finds the route, fills request.params and request.route, runs the handler. The router and the request outlive the
  // awaited call.
  net::awaitable<Response> dispatch(Request& request) const;

 private:
  struct Node;
  std::unique_ptr<Node> root_;
  Codes codes_;
};

}  // namespace osb::http
