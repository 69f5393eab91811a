#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/execd_init.h"
#include "async/net.h"
#include "base/error.h"
#include "http/router.h"

namespace osb::execd {

// Whether this execd knows its sandbox. One that is started ahead of its sandbox (--await-init) takes its identity,
// token and variables from one POST /internal/init. Until then it serves GET /ping, GET /ready and that route alone.
class Initialization {
 public:
  // Does what a request asks for; returns warnings about settings that have no effect here.
  using Apply = std::function<net::awaitable<Result<std::vector<std::string>>>(api::InitializeExecd)>;

  // `sandbox_id`: of an execd that awaits nothing; may be empty.
  Initialization(bool awaited, std::string sandbox_id) : awaited_(awaited), sandbox_id_(std::move(sandbox_id)) {}

  bool done() const { return !awaited_ || generation_ > 0; }

  // Both routes. `apply` is called at most once at a time; after it failed the next request may try again.
  void add_routes(http::Router& router, Apply apply);
  // Refuses every request but those three until it is done. `inner` outlives the handler.
  http::Handler guard(http::Handler inner) const;

 private:
  net::awaitable<http::Response> initialize(http::Request& request);
  std::string state_json() const;

  const bool awaited_;
  bool applying_ = false;
  std::string sandbox_id_;
  std::int64_t generation_ = 0;
  Apply apply_;
};

}  // namespace osb::execd
