#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/ports.h"
#include "config/server_config.h"
#include "runtime/docker/engine_client.h"

namespace osb::runtime {

// How sandboxes are made in a container engine.
struct DockerOptions {
  EngineAddress engine;
  config::DockerSection docker;
  config::EgressSection egress;
  // An image that holds /execd and /bootstrap.sh; or, beginning with '/', a directory of the engine's host with the
  // two.
  std::string execd_image;
  bool execd_run_as_init = false;
  std::string runtime;  // OCI runtime of every sandbox; "" is the engine's default
  std::vector<std::string> allowed_host_paths;
  bool resolve_internal = true;                   // the server reaches sandboxes by their own addresses, if it can
  std::string publish_address = "0.0.0.0";        // where the ports of sandboxes appear
  std::string public_host = "127.0.0.1";          // the host of their endpoints
  std::filesystem::path credentials;              // ~/.docker/config.json of the server's user
  std::chrono::milliseconds log_silence{10'000};  // see DockerLogs
};

// By the server's address and environment, as the contract says: DOCKER_HOST and its companions; published on loopback
// when the server listens there, so that only clients that reach the server reach a sandbox.
DockerOptions docker_options(const config::ServerConfig& config, const config::Environment& environment);

}  // namespace osb::runtime
