#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "execd/path/path.h"

namespace osb::execd {

// "KEY=value" strings, as environ(7) has them, into a map; of equal names the first wins, as getenv does.
Environment parse_environ(const char* const* environ);
std::vector<std::string> to_environ(const Environment& env);

// Lines KEY=VALUE, trimmed; blank lines, comments (#) and lines without '=' are skipped; later ones win. "$NAME" and
// "${NAME}" in values are replaced from `daemon`, by nothing where undefined.
//
// A value may be quoted, and then go over several lines. KEY='value' is taken as it is. In KEY="value" the escapes
// \\ \" \$ \n \r \t count (another backslash is one), and variables are replaced. A line whose quote is never closed,
// or that goes on behind the closing quote, is skipped.
Environment parse_env_file(std::string_view text, const Environment& daemon);

// Where commands get their environment from.
class CommandEnvironment {
 public:
  // `daemon` is this process's environment; the daemon's own settings and secrets (EXECD_..., but EXECD_ENVS, which
  // clients append to by a command) are taken out here. `cwd`: where relative paths of requests start.
  CommandEnvironment(Environment daemon, std::string cwd);

  const Environment& daemon() const { return daemon_; }
  const std::string& cwd() const { return cwd_; }

  // Variables that every process gets from now on, above the daemon's own.
  void add(const Environment& variables);

  // The daemon's, below what the file named by EXECD_ENVS says now, below the request's. A file that cannot be read
  // changes nothing. OPENSANDBOX_ID, where the daemon has it, is the daemon's.
  Environment for_command(const std::map<std::string, std::string>& request) const;

  // The present variables of the file named by EXECD_ENVS, without OPENSANDBOX_ID where the daemon has it.
  Environment from_file() const;

  // A request's cwd as an absolute path, with the variables of `env` replaced; the daemon's own where it is empty.
  // Fails (Code::InvalidRequest) unless it is a directory.
  Result<std::string> directory(std::string_view cwd, const Environment& env) const;

  // The same for a session that begins there: made if it is missing (Code::Internal where it cannot be).
  Result<std::string> new_directory(std::string_view cwd) const;

  // bash where there is one, else sh; looked for in the daemon's PATH once, and again when it is gone.
  Result<std::string> shell();

  // The program that a command without a shell names: looked for in the absolute directories of its own environment's
  // PATH. A name with a slash is returned as it is.
  static Result<std::string> program(const std::string& name, const Environment& env);

 private:
  Environment daemon_;
  std::string cwd_;
  std::string env_file_;  // expanded; empty: none
  std::string shell_;
};

}  // namespace osb::execd
