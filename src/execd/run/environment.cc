#include "execd/run/environment.h"

#include <algorithm>
#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_escape.h"
#include "base/text.h"
#include "execd/owner/identity.h"
#include "execd/path/variables.h"
#include "execd/run/small_file.h"
#include "sys/spawn.h"
#include "sys/staged_file.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMaxEnvFile = 1024 * 1024;
constexpr std::string_view kDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
// Clients append to the file that this variable names, by a command.
constexpr std::string_view kEnvFile = "EXECD_ENVS";
constexpr std::string_view kSandboxId = "OPENSANDBOX_ID";

// Settings and credentials of execd itself, which no process of a command needs.
bool is_own(std::string_view name) {
  if (name == kEnvFile) return false;
  return name.starts_with("EXECD_") || name.starts_with("_EXECD_") || name == "JUPYTER_TOKEN";
}

// The length of the quoted text at the beginning of `text`, quotes included; 0 unless it is closed and its line ends
// there.
std::size_t quoted_length(std::string_view text) {
  const char quote = text[0];
  std::size_t end = 1;
  while (end < text.size() && text[end] != quote) end += text[end] == '\\' && quote == '"' ? 2 : 1;
  if (end >= text.size()) return 0;
  ++end;
  const std::string_view rest = text.substr(end, text.substr(end).find('\n'));
  return is_blank(rest) ? end : 0;
}

// The text between double quotes, with its escapes and variables replaced.
std::string unescape(std::string_view text, const Environment& env) {
  constexpr std::string_view kEscapes = "\\\"$nrt";
  constexpr std::string_view kMeanings = "\\\"$\n\r\t";
  std::string out;
  while (!text.empty()) {
    const std::size_t backslash = text.find('\\');
    out += expand_variables(text.substr(0, backslash), env).text;
    if (backslash == std::string_view::npos) break;
    text.remove_prefix(backslash + 1);
    const std::size_t known = text.empty() ? std::string_view::npos : kEscapes.find(text[0]);
    out += known != std::string_view::npos ? kMeanings[known] : '\\';
    if (known != std::string_view::npos) text.remove_prefix(1);
  }
  return out;
}

// Our own descriptors are open to us: no command gets in there by naming one.
Result<void> refuse_descriptors(const std::string& path) {
  if (refuse_magic_links(path)) return {};
  return fail(Code::InvalidRequest,
              "cwd " + in_quotes(path) + ": goes through a link of /proc to an open file of a process, or in circles");
}

}  // namespace

Environment parse_environ(const char* const* environ) {
  Environment env;
  for (; environ != nullptr && *environ != nullptr; ++environ) {
    const std::string_view entry = *environ;
    const std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos) env.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return env;
}

std::vector<std::string> to_environ(const Environment& env) {
  std::vector<std::string> out;
  out.reserve(env.size() + 1);
  for (const auto& [name, value] : env) out.push_back(name + "=" + value);
  return out;
}

Environment parse_env_file(std::string_view text, const Environment& daemon) {
  Environment env;
  const auto set = [&env](std::string_view name, std::string value) {
    // exec would cut the string at a NUL.
    if (name.empty() || name.contains('\0') || value.contains('\0')) return;
    env.insert_or_assign(std::string(name), std::move(value));
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    const std::size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos) {
      text.remove_prefix(std::min(end + 1, text.size()));
      continue;
    }
    const std::string_view name = trimmed(line.substr(0, equals));
    const std::string_view value = trimmed(line.substr(equals + 1));
    const bool opens = value.starts_with('\'') || value.starts_with('"');
    // From the quote to the end of the file: the value may go on behind this line.
    const std::string_view rest = opens ? text.substr(static_cast<std::size_t>(value.data() - text.data())) : value;
    const std::size_t length = opens ? quoted_length(rest) : 0;
    if (length == 0) {
      if (!opens) set(name, expand_variables(value, daemon).text);
      text.remove_prefix(std::min(end + 1, text.size()));
      continue;
    }
    const std::string_view inner = rest.substr(1, length - 2);
    set(name, rest[0] == '"' ? unescape(inner, daemon) : std::string(inner));
    const std::string_view behind = rest.substr(length);
    text = behind.substr(std::min(behind.find('\n'), behind.size()));
  }
  return env;
}

CommandEnvironment::CommandEnvironment(Environment daemon, std::string cwd)
    : daemon_(std::move(daemon)), cwd_(std::move(cwd)) {
  std::erase_if(daemon_, [](const auto& entry) { return is_own(entry.first); });
  if (const auto it = daemon_.find(kEnvFile); it != daemon_.end() && !it->second.empty()) {
    env_file_ = expand_path(it->second, daemon_, cwd_).value_or("");
  }
}

Environment CommandEnvironment::for_command(const std::map<std::string, std::string>& request) const {
  Environment env = daemon_;
  for (auto& [name, value] : from_file()) env.insert_or_assign(name, std::move(value));
  for (const auto& [name, value] : request) {
    if (name != kSandboxId || !daemon_.contains(kSandboxId)) env.insert_or_assign(name, value);
  }
  return env;
}

void CommandEnvironment::add(const Environment& variables) {
  for (const auto& [name, value] : variables) {
    if (!is_own(name)) daemon_.insert_or_assign(name, value);
  }
}

Environment CommandEnvironment::from_file() const {
  if (env_file_.empty()) return {};
  Environment out = parse_env_file(read_small_file(env_file_, kMaxEnvFile).value_or(""), daemon_);
  if (daemon_.contains(kSandboxId)) out.erase(std::string(kSandboxId));
  return out;
}

Result<std::string> CommandEnvironment::directory(std::string_view cwd, const Environment& env) const {
  if (cwd.empty()) return cwd_;
  auto path = expand_path(cwd, env, cwd_);
  if (!path) return with_context("cwd", path.error());
  struct stat info{};
  if (::stat(path->c_str(), &info) < 0) {
    auto failure = sys::from_errno("cwd " + in_quotes(*path), errno);
    failure.error().code = Code::InvalidRequest;
    return failure;
  }
  if (!S_ISDIR(info.st_mode)) return fail(Code::InvalidRequest, "cwd " + in_quotes(*path) + ": not a directory");
  if (auto allowed = refuse_descriptors(*path); !allowed) return Failure(allowed.error());
  return path;
}

Result<std::string> CommandEnvironment::new_directory(std::string_view cwd) const {
  if (cwd.empty()) return cwd_;
  auto path = expand_path(cwd, daemon_, cwd_);
  if (!path) return with_context("cwd", path.error());
  if (auto allowed = refuse_descriptors(*path); !allowed) return Failure(allowed.error());
  if (auto made = sys::make_directories(*path, 0777); !made)
    return fail(Code::Internal, "cwd: " + made.error().message);
  return path;
}

Result<std::string> CommandEnvironment::shell() {
  if (!shell_.empty() && ::access(shell_.c_str(), X_OK) == 0) return shell_;
  const auto it = daemon_.find("PATH");
  const std::string_view path = it != daemon_.end() ? std::string_view(it->second) : kDefaultPath;
  for (const char* name : {"bash", "sh"}) {
    if (auto found = sys::find_program(name, path)) return shell_ = *found;
  }
  return fail(Code::NotFound, "neither bash nor sh is in PATH (" + std::string(path) + ")");
}

Result<std::string> CommandEnvironment::program(const std::string& name, const Environment& env) {
  const auto it = env.find("PATH");
  const std::string_view given = it != env.end() ? std::string_view(it->second) : kDefaultPath;
  std::string path;
  for (std::size_t begin = 0; begin <= given.size();) {
    const std::size_t end = std::min(given.find(':', begin), given.size());
    const std::string_view directory = given.substr(begin, end - begin);
    if (directory.starts_with('/')) (path += path.empty() ? "" : ":") += directory;
    begin = end + 1;
  }
  if (name.contains('/')) return name;
  auto found = path.empty() ? std::nullopt : sys::find_program(name, path);
  if (found) return std::move(*found);
  return fail(Code::NotFound, "exec " + in_quotes(name) + ": not found in the absolute directories of PATH (" +
                                  std::string(given) + ")");
}

}  // namespace osb::execd
