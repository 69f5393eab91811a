#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "controller/controller.h"
#include "http/transport.h"

namespace osb::controller {

struct CommandLine {
  bool help = false, version = false, print_crds = false;
  std::string crd;         // of --print-crds: one plural name; empty: all
  std::string kubeconfig;  // empty: KUBECONFIG, then the pod's service account
  std::string context;
  bool leader_elect = true;
  std::string lease_namespace;  // empty: POD_NAMESPACE, then the one of the configuration
  std::string lease_name = "2fa1c467.opensandbox.io";
  int qps = 100;
  int burst = 200;
  std::optional<http::Address> health, metrics;  // nothing: not served
  LogLevel log_level = LogLevel::Info;
  LogFormat log_format = LogFormat::Text;
  ControllerOptions controller;
};

// Flags with one or two dashes, a value behind = or in the next word. Errors name the flag.
Result<CommandLine> parse_command_line(const std::vector<std::string>& args);
// The text of --help, from the table of flags.
std::string usage();

}  // namespace osb::controller
