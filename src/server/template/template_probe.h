#pragma once

#include <chrono>
#include <string>

#include "api/lifecycle_template.h"
#include "http/client.h"
#include "runtime/instance.h"

namespace osb::server {

// Asks execd of a sandbox once whether the probe answers: whether the port takes a connection, whether the command ends
// with 0. False: not yet, and `why` says so. An error: execd cannot be asked.
struct ProbeAnswer {
  bool ready = false;
  std::string why;
};
// `client` outlives it. An answer that takes longer than `limit` is none.
net::awaitable<Result<ProbeAnswer>> ask_probe(http::Client& client, runtime::Route execd, std::string token,
                                              api::TemplateProbe probe, std::chrono::milliseconds limit);

}  // namespace osb::server
