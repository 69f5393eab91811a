#pragma once

#include <string>

#include "execd/isolated/isolated_service.h"
#include "http/client.h"
#include "http/router.h"

namespace osb::execd {

// The routes below /v1/isolated. Everything outlives the router.
class IsolatedRoutes {
 public:
  // `init_mode`: none, pid1, subreaper.
  IsolatedRoutes(IsolatedService& service, std::string init_mode);
  void add(http::Router& router);

 private:
  net::awaitable<http::Response> create(http::Request& request);
  net::awaitable<http::Response> run(http::Request& request);
  net::awaitable<http::Response> diff(http::Request& request);
  net::awaitable<http::Response> commit(http::Request& request);
  net::awaitable<http::Response> capabilities();
  net::awaitable<http::Response> files(http::Request& request);

  IsolatedService& service_;
  const std::string init_mode_;
  http::Client client_;  // to the processes that serve the files of sessions
};

}  // namespace osb::execd
