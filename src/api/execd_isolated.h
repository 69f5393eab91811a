#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::api {

// The requests of isolated sessions (/v1/isolated). Errors as in api/execd_requests.h.

struct IsolatedMount {
  std::string path;     // absolute, clean, not "/"
  std::string mode;     // rw, overlay, ro
  bool persist = true;  // of an overlay
  bool operator==(const IsolatedMount&) const = default;
};

struct IsolatedBind {
  std::string source;
  std::string dest;  // as the source where the request has none
  bool read_only = false;
};

struct CreateIsolatedSession {
  bool strict = true;
  std::vector<IsolatedMount> mounts;  // the workspace first
  bool has_workspace = false;
  std::vector<std::string> extra_writable;
  std::vector<IsolatedBind> binds;
  bool share_net = true;
  bool env_allow = false;  // only these variables; else all but these
  std::vector<std::string> env_keys;
  bool env_given = false;
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::string uid_mode = "setpriv";         // or userns
  std::chrono::seconds idle_timeout{1800};  // 0: none
};
Result<CreateIsolatedSession> decode_create_isolated_session(std::string_view body);

struct RunIsolated {
  std::string code;
  std::map<std::string, std::string> envs;
  std::chrono::seconds timeout{0};  // 0: none
  bool background = false;
};
Result<RunIsolated> decode_run_isolated(std::string_view body);

}  // namespace osb::api
