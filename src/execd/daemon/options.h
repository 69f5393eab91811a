#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/ports.h"
#include "execd/file/disk_reserve.h"
#include "execd/isolated/isolation_options.h"
#include "execd/path/path.h"

namespace osb::execd {

struct Options {
  enum class Action { Serve, ShowHelp, ShowVersion };
  Action action = Action::Serve;

  std::uint16_t port = kExecdPort;
  bool port_given = false;
  std::vector<int> listen_fds;
  std::string access_token;  // empty: no authentication
  std::string jupyter_host;
  std::string jupyter_token;
  std::chrono::nanoseconds jupyter_idle_poll_interval = std::chrono::milliseconds(100);
  std::chrono::nanoseconds graceful_shutdown_timeout = std::chrono::milliseconds(200);  // accepted; streams end at once

  LogLevel log_level = LogLevel::Info;
  std::vector<std::string> log_outputs = {"stdout"};

  // From the first SIGTERM to the SIGKILL of all processes that are left.
  std::chrono::milliseconds shutdown_timeout{5000};
  std::vector<std::string> entrypoint;  // empty: none
  std::string entrypoint_log;           // empty: our own stdout and stderr
  bool entrypoint_log_times = false;
  std::string exit_dir;             // empty: no exit record
  std::string lifecycle_hooks;      // OPENSANDBOX_LIFECYCLE (api/lifecycle_hooks.h); empty: none
  std::string startup_status_file;  // hook/startup_status.h; empty: none
  bool end_with_entrypoint = false;
  bool init = false;             // end signals go to the entrypoint too, and its end is ours
  bool await_init = false;       // POST /internal/init comes first
  std::string isolation_config;  // isolated/isolation_config.h, already read; empty: none
  IsolationOptions isolation;
  DiskReserve reserve;                              // that uploads leave free
  std::map<std::string, std::string> cgroup_files;  // the kernel's name of a file -> where to open it (open_given)

  // A TCP port is opened unless inherited sockets were given and no port, or port 0, was asked for. Port 0 without
  // inherited sockets means one that the kernel picks.
  bool opens_port() const { return listen_fds.empty() || (port_given && port != 0); }
};

// Why the program does not start, and its exit status: 2 (and the usage) for a command line that makes no sense, 1 for
// an environment variable that does not.
struct OptionsError {
  int exit_status = 1;
  std::string message;
};

// The contract's rules: "-name" and "--name" are the same, a value follows "=" or is the next argument, a flag beats
// its variable. Reading stops at the first positional argument, which is ignored together with all that follows (the
// image's entrypoint is run with "tail -f /dev/null" behind it), or at "--", behind which the user's entrypoint stands.
std::expected<Options, OptionsError> parse_options(std::span<const std::string_view> args, const Environment& env);

const char* usage();

// Removes secrets and hooks, which child processes must not inherit, from `env` and from this process's own memory,
// where /proc/PID/environ and /proc/PID/cmdline would show them. `argv` and `environ` are those of main().
void wipe_secrets(Environment& env, char** argv, char** environ);

}  // namespace osb::execd
