#include "execd/daemon/options.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>

#include "api/lifecycle_hooks.h"
#include "base/duration.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "base/text.h"
#include "execd/isolated/isolation_config.h"

namespace osb::execd {
namespace {

constexpr std::string_view kTokenVariable = "EXECD_ACCESS_TOKEN";
constexpr std::array kHooksVariables = {api::kHooksVariable, std::string_view("OPEN_SANDBOX_LIFECYCLE")};

using Check = std::expected<void, std::string>;  // what is wrong with a value

Check read_port(std::string_view text, Options& out) {
  const auto value = parse_number<int>(text);
  if (!value || *value < 0 || *value > 65535) return std::unexpected("expected a number from 0 to 65535");
  out.port = static_cast<std::uint16_t>(*value);
  out.port_given = true;
  return {};
}

Check read_listen_fd(std::string_view text, Options& out) {
  const auto value = parse_number<int>(text);
  if (!value || *value < 0) return std::unexpected("expected the number of an inherited descriptor");
  out.listen_fds.push_back(*value);
  return {};
}

Check read_log_level(std::string_view text, Options& out) {
  const auto value = parse_number<int>(text);
  if (!value) return std::unexpected("expected a number: 3 error, 4 warning, 6 information, 7 debug");
  out.log_level = *value <= 2   ? LogLevel::Off
                  : *value == 3 ? LogLevel::Error
                  : *value == 4 ? LogLevel::Warn
                  : *value <= 6 ? LogLevel::Info
                                : LogLevel::Debug;
  return {};
}

Check read_duration(std::string_view text, std::chrono::nanoseconds& out) {
  const auto value = parse_duration(text);
  if (!value) return std::unexpected("expected a duration such as 500ms, 1s or 1m30s");
  out = *value;
  return {};
}

Check read_poll_interval(std::string_view text, Options& out) {
  std::chrono::nanoseconds value{};
  if (auto read = read_duration(text, value); !read) return read;
  if (value.count() > 0) out.jupyter_idle_poll_interval = value;
  return {};
}

Check read_shutdown_timeout(std::string_view text, Options& out) {
  std::chrono::nanoseconds value{};
  if (auto read = read_duration(text, value); !read) return read;
  if (value.count() < 0) return std::unexpected("must not be negative");
  out.shutdown_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(value);
  return {};
}

Check read_after_entrypoint(std::string_view text, Options& out) {
  if (text != "serve" && text != "end") return std::unexpected("expected serve or end");
  out.end_with_entrypoint = text == "end";
  return {};
}

Check read_log_times(std::string_view text, Options& out) {
  if (text != "none" && text != "lines") return std::unexpected("expected none or lines");
  out.entrypoint_log_times = text == "lines";
  return {};
}

Check read_disk_reserve(std::string_view text, Options& out) {
  const std::size_t comma = std::min(text.find(','), text.size());
  const auto bytes = parse_number<std::int64_t>(text.substr(0, comma));
  const auto inodes = parse_number<std::int64_t>(text.substr(std::min(comma + 1, text.size())));
  if (!bytes || !inodes || *bytes < -1 || *inodes < -1) return std::unexpected("expected BYTES,INODES");
  out.reserve = out.isolation.reserve = {*bytes, *inodes};
  return {};
}

Check read_cgroup_file(std::string_view text, Options& out) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || equals + 1 == text.size()) {
    return std::unexpected("expected NAME=FILE");
  }
  out.cgroup_files.insert_or_assign(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
  return {};
}

Check read_bytes(std::string_view text, std::uint64_t& out) {
  const auto value = parse_number<std::uint64_t>(text);
  if (!value || *value == 0) return std::unexpected("expected a number of bytes above 0");
  out = *value;
  return {};
}

Check read_allowed_writable(std::string_view text, Options& out) {
  out.isolation.allowed_writable.clear();
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string path = clean_path(text.substr(0, comma));
    if (!text.starts_with('/') || path == "/") return std::unexpected("expected absolute paths other than /");
    out.isolation.allowed_writable.push_back(path);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return {};
}

// As Go's flags and the contract's variables spell it.
Check read_bool(std::string_view text, bool& out) {
  const auto is_one_of = [text](std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(words, [text](std::string_view word) { return equals_ignoring_case(text, word); });
  };
  const bool yes = is_one_of({"1", "t", "true", "yes", "on"});
  if (!yes && !is_one_of({"0", "f", "false", "no", "off"})) return std::unexpected("expected true or false");
  out = yes;
  return {};
}

Check read_init(std::string_view text, Options& out) {
  if (auto read = read_bool(text, out.init); !read) return read;
  if (out.init) out.end_with_entrypoint = true;
  return {};
}

struct Flag {
  std::string_view name;
  std::string_view variable;  // empty: none
  std::function<Check(std::string_view, Options&)> read;
  bool is_switch = false;  // without "=value" it is true, and takes no next argument
};

std::vector<Flag> flags() {
  const auto text = [](std::string Options::* member) {
    return [member](std::string_view value, Options& out) -> Check {
      out.*member = value;
      return {};
    };
  };
  return {
      {"port", "", read_port},
      {"access-token", kTokenVariable, text(&Options::access_token)},
      {"jupyter-host", "JUPYTER_HOST", text(&Options::jupyter_host)},
      {"jupyter-token", "JUPYTER_TOKEN", text(&Options::jupyter_token)},
      {"jupyter-idle-poll-interval", "EXECD_JUPYTER_IDLE_POLL_INTERVAL", read_poll_interval},
      {"graceful-shutdown-timeout", "EXECD_API_GRACE_SHUTDOWN",
       [](std::string_view value, Options& out) { return read_duration(value, out.graceful_shutdown_timeout); }},
      {"log-level", "", read_log_level},
      {"listen-fd", "", read_listen_fd},
      {"shutdown-timeout", "", read_shutdown_timeout},
      {"exit-dir", "", text(&Options::exit_dir)},
      {"entrypoint-log", "", text(&Options::entrypoint_log)},
      {"entrypoint-log-times", "", read_log_times},
      {"after-entrypoint", "", read_after_entrypoint},
      {"cgroup-file", "", read_cgroup_file},
      {"isolation-socket", "",
       [](std::string_view value, Options& out) -> Check {
         out.isolation.socket = value;
         return {};
       }},
      {"isolation-allowed-writable", "EXECD_ISOLATION_ALLOWED_WRITABLE", read_allowed_writable},
      {"isolation-upper-max-bytes", "EXECD_ISOLATION_UPPER_MAX_BYTES",
       [](std::string_view value, Options& out) { return read_bytes(value, out.isolation.upper_max_bytes); }},
      {"isolation-diff-max-bytes", "EXECD_ISOLATION_DIFF_MAX_BYTES",
       [](std::string_view value, Options& out) { return read_bytes(value, out.isolation.diff_max_bytes); }},
      {"isolation-config", "EXECD_ISOLATION_CONFIG", text(&Options::isolation_config)},
      {"init", "EXECD_INIT", read_init, true},
      {"lifecycle-startup-status-file", "", text(&Options::startup_status_file)},
      {"await-init", "", [](std::string_view value, Options& out) { return read_bool(value, out.await_init); }, true},
      {"disk-reserve", "EXECD_DISK_RESERVE", read_disk_reserve},
  };
}

std::string_view variable(const Environment& env, std::string_view name) {
  const auto found = env.find(name);
  return found == env.end() ? std::string_view() : std::string_view(found->second);
}

std::vector<std::string> log_outputs(const Environment& env) {
  if (const std::string_view file = variable(env, "EXECD_LOG_FILE"); !file.empty()) return {std::string(file)};
  std::vector<std::string> out;
  std::string_view list = variable(env, "OPENSANDBOX_LOG_OUTPUT");
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view entry = list.substr(0, comma);
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    if (!entry.empty()) out.emplace_back(entry);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  if (out.empty()) out.emplace_back("stdout");
  return out;
}

std::unexpected<OptionsError> bad_usage(std::string message) {
  return std::unexpected(OptionsError{2, std::move(message)});
}

std::expected<void, OptionsError> read_environment(const std::vector<Flag>& known, const Environment& env,
                                                   Options& out) {
  for (const Flag& flag : known) {
    const std::string_view value = flag.variable.empty() ? std::string_view() : variable(env, flag.variable);
    if (value.empty()) continue;
    if (const auto read = flag.read(value, out); !read) {
      return std::unexpected(
          OptionsError{1, std::string(flag.variable) + "=" + in_quotes(value) + ": " + read.error()});
    }
  }
  const std::string& host = out.jupyter_host;
  if (!host.empty() && !host.starts_with("http://") && !host.starts_with("https://")) {
    return std::unexpected(
        OptionsError{1, "JUPYTER_HOST=" + in_quotes(host) + ": must begin with http:// or https://"});
  }
  for (const std::string_view name : kHooksVariables) {
    if (out.lifecycle_hooks.empty()) out.lifecycle_hooks = variable(env, name);
  }
  // The published execd reads hooks from there. Without them the sandbox would start as if they had succeeded.
  if (const std::string_view file = variable(env, "EXECD_LIFECYCLE_CONFIG");
      !file.empty() && out.lifecycle_hooks.empty()) {
    return std::unexpected(OptionsError{1, "EXECD_LIFECYCLE_CONFIG=" + in_quotes(file) +
                                               ": execd reads no hooks from a file; put them into " +
                                               std::string(api::kHooksVariable) + " as JSON"});
  }
  out.log_outputs = log_outputs(env);
  return {};
}

// The secret of "NAME=value" or "--name=value", which stays as long as it was.
void blank(char* text) { std::memset(text, '*', std::strlen(text)); }

// `out`: the values of what neither names.
std::expected<Options, OptionsError> parse_over(std::span<const std::string_view> args, const Environment& env,
                                                Options out) {
  const std::vector<Flag> known = flags();
  if (auto read = read_environment(known, env, out); !read) return std::unexpected(read.error());

  for (std::size_t i = 0; i < args.size(); ++i) {
    std::string_view arg = args[i];
    if (arg == "--") {
      out.entrypoint.assign(args.begin() + static_cast<std::ptrdiff_t>(i) + 1, args.end());
      break;
    }
    if (!arg.starts_with('-') || arg == "-") break;
    arg.remove_prefix(arg.starts_with("--") ? 2 : 1);
    const std::size_t equals = arg.find('=');
    const std::string_view name = arg.substr(0, equals);
    if (name == "help" || name == "h" || name == "version") {
      out.action = name == "version" ? Options::Action::ShowVersion : Options::Action::ShowHelp;
      return out;
    }
    const auto flag = std::find_if(known.begin(), known.end(), [&](const Flag& f) { return f.name == name; });
    if (flag == known.end()) return bad_usage("unknown flag " + std::string(args[i].substr(0, args[i].find('='))));
    std::string_view value;
    if (equals != std::string_view::npos) {
      value = arg.substr(equals + 1);
    } else if (flag->is_switch) {
      value = "true";
    } else if (i + 1 < args.size()) {
      value = args[++i];
    } else {
      return bad_usage("flag --" + std::string(name) + " needs a value");
    }
    if (const auto read = flag->read(value, out); !read) {
      return bad_usage("flag --" + std::string(name) + "=" + in_quotes(value) + ": " + read.error());
    }
  }
  return out;
}

}  // namespace

std::expected<Options, OptionsError> parse_options(std::span<const std::string_view> args, const Environment& env) {
  auto parsed = parse_over(args, env, {});
  if (!parsed || parsed->action != Options::Action::Serve || parsed->isolation_config.empty()) return parsed;
  // Flags and variables win over the file, which they name.
  Options below;
  if (const auto read = load_isolation_config(parsed->isolation_config, below.isolation); !read) {
    return std::unexpected(OptionsError{1, "--isolation-config: " + read.error().message});
  }
  return parse_over(args, env, std::move(below));
}

void wipe_secrets(Environment& env, char** argv, char** environ) {
  for (const std::string_view name : {kTokenVariable, kHooksVariables[0], kHooksVariables[1]}) {
    if (const auto found = env.find(name); found != env.end()) env.erase(found);
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      if (text.starts_with(name) && text.substr(name.size()).starts_with('=')) blank(*entry + name.size() + 1);
    }
  }
  for (char** arg = argv; *arg != nullptr; ++arg) {
    std::string_view text = *arg;
    if (text == "--") return;
    while (text.starts_with('-')) text.remove_prefix(1);
    const std::size_t dashes = std::strlen(*arg) - text.size();
    if (dashes == 0 || dashes > 2) continue;
    if (text == "access-token" && arg[1] != nullptr) blank(*++arg);
    if (text.starts_with("access-token=")) blank(*arg + dashes + std::strlen("access-token="));
  }
}

const char* usage() {
  return R"(Usage: execd [FLAG...] [-- COMMAND [ARGUMENT...]]

The daemon inside a sandbox: runs commands, keeps shell sessions and terminals, moves files and forwards
ports, over HTTP/1.1. With a COMMAND behind "--" it also starts that and looks after it, as an init does.

A flag is written -name or --name, its value follows "=" or is the next argument. Durations look like
500ms, 1s or 1m30s. Other arguments are ignored. A variable in brackets is the flag's default.

Serving
  --port N                   TCP port, all IPv4 addresses (default 44772; 0: the kernel picks one)
  --listen-fd N              serve this inherited listening socket, TCP or Unix; may be repeated. A TCP port
                             is then opened only if --port names one other than 0
  --access-token TOKEN       every request must carry it in X-EXECD-ACCESS-TOKEN [EXECD_ACCESS_TOKEN]
  --log-level N              3 error, 4 warning, 6 information, 7 debug (default 6)

Entrypoint and end
  --exit-dir DIR             write exit.json there when COMMAND has ended: code, signal, finished_at
  --entrypoint-log FILE      append COMMAND's output to FILE instead of passing it on. For both, /proc/self/fd/N
                             means the inherited descriptor N; it need not be reachable by any path
  --entrypoint-log-times WHAT
                             lines: every line of that file begins with its time, RFC 3339 with nine digits,
                             and a space; a full disk then costs output and does not stop COMMAND. none: the
                             bytes as they come, from COMMAND itself (default)
  --after-entrypoint WHAT    serve: go on serving when COMMAND has ended (default). end: end everything, with
                             COMMAND's exit status
  --init                     be COMMAND's init: SIGTERM and SIGINT go to COMMAND too, and execd ends with COMMAND and
                             its exit status [EXECD_INIT]
  --lifecycle-startup-status-file FILE
                             append to this file, which must exist, how far the start is: "running SECONDS" when the
                             preStart hook begins, "done 0" or "done 1" at last
  --await-init               wait for POST /internal/init on the inherited Unix socket: until then only /ping and
                             /ready are served, and COMMAND is not started
  --shutdown-timeout TIME    from SIGTERM to the SIGKILL of all processes that still run (default 5s)

Sandbox
  --cgroup-file NAME=FILE    read this file of the sandbox's cgroup (cpu.stat, memory.usage_in_bytes ..) there, where
                             /sys/fs/cgroup does not show it; /proc/self/fd/N as above; may be repeated
  --disk-reserve BYTES,INODES
                             refuse uploads that would leave less free on the disk of / (default 0,0: none); -1 is a
                             twentieth of the disk, at most 1 GiB and 100,000 inodes [EXECD_DISK_RESERVE]

Isolated sessions
  --isolation-config FILE    TOML with upper_max_bytes, diff_max_bytes and allowed_writable, below the flags
                             [EXECD_ISOLATION_CONFIG]
  --isolation-socket PATH    ask sandboxd for them on this socket (default: make them with execd's own rights)
  --isolation-allowed-writable PATH,PATH
                             where extra_writable and binds may be (default /workspace,/mnt,/media,/data)
                             [EXECD_ISOLATION_ALLOWED_WRITABLE]
  --isolation-upper-max-bytes N
                             changes of a session's overlays, kept in memory (default 8 GiB, at most half of the
                             sandbox's memory) [EXECD_ISOLATION_UPPER_MAX_BYTES]
  --isolation-diff-max-bytes N
                             the longest diff (default 4 GiB) [EXECD_ISOLATION_DIFF_MAX_BYTES]

Code interpreter
  --jupyter-host URL         [JUPYTER_HOST]
  --jupyter-token TOKEN      [JUPYTER_TOKEN]
  --jupyter-idle-poll-interval TIME
                             accepted for compatibility [EXECD_JUPYTER_IDLE_POLL_INTERVAL]
  --graceful-shutdown-timeout TIME
                             accepted for compatibility: a stream ends with its command
                             [EXECD_API_GRACE_SHUTDOWN]

  --version                  print the version
  --help                     print this

  --keep-core-limit SCRIPT   as the first argument: keep the host's core_pattern away, and setuid files too with
                             EXECD_NO_SET_ID=1, then run /bin/sh SCRIPT; the interpreter of bootstrap.sh
  --wait-for-policy COMMAND  as the first argument: wait until the egress sidecar enforces the network policy, then run
                             the command; the entrypoint of containers with a policy

Environment
  EXECD_ENVS                 file of KEY=VALUE lines for commands, read anew for each
  OPENSANDBOX_LIFECYCLE      hooks, as JSON: preStart runs before COMMAND, which starts only if it succeeds; periodic
                             ones run beside COMMAND (docs/lifecycle-hooks.md)
  EXECD_LOG_FILE             where to log, else OPENSANDBOX_LOG_OUTPUT, else stdout
  EXECD_CLONE3_COMPAT        1 or reexec: let clone3 fail, for container runtimes that forbid it badly
  OTEL_EXPORTER_OTLP_ENDPOINT
                             send metrics there, OTLP over plain HTTP to an IP address

Exit status: 0 after SIGTERM or SIGINT, or that of COMMAND if it had ended before (128 + number for a
signal); 1 if it cannot start; 2 for a wrong command line.
)";
}

}  // namespace osb::execd
