#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "sandboxd/disk/writable_disk.h"
#include "sandboxd/network/network_config.h"

namespace osb::sandboxd {

// One thing of the host that sandboxes use.
struct HostCheck {
  enum class State {
    Ok,
    Degraded,  // works, but less well or less tightly
    Missing,   // a feature that cannot be used; sandboxes work without it
    Required,  // missing, and no sandbox without it
  };
  std::string what;  // "overlayfs"
  State state = State::Ok;
  std::string detail;  // what was found
  std::string advice;  // what to do about it; empty when Ok
};

struct CheckOptions {
  std::filesystem::path state_directory = "/var/lib/opensandbox";  // need not exist: its nearest ancestor is tried
  std::string cgroup_parent = "opensandbox";
  std::string runsc = "runsc";  // program name or path
  NetworkConfig network = {};   // for the names in the advice
  DiskConfig disk = {};
  std::string egress_program = {};  // path; empty: not looked at
};

// Finds out by trying, in child processes and scratch directories that are gone afterwards. Blocks for about 0.1 s.
// Without root most of it is Required, with the advice to be root.
std::vector<HostCheck> check_host(const CheckOptions& options);

// One clear sentence about everything that is Required; nothing otherwise.
Result<void> require_host(const std::vector<HostCheck>& checks);

// A table for people, with colours only if asked for; and the same as a JSON document.
std::string format_checks(const std::vector<HostCheck>& checks, bool colour);
std::string checks_to_json(const std::vector<HostCheck>& checks);

// `sandboxd check [--json]`: prints to standard output; the program's exit code (1: something required is missing).
int run_check(const CheckOptions& options, bool json);

}  // namespace osb::sandboxd
