#pragma once

#include <opensandbox/pty.h>
#include <opensandbox/types.h>
#include <optional>
#include <string>
#include <vector>

#include "cli/problem.h"

namespace osb::cli {

// The user that a program in a sandbox runs as; empty: the sandbox's own user.
struct RemoteUser {
  std::string name;
  std::optional<std::uint32_t> uid, gid;
};

// "NAME", "UID" or "UID:GID", as -u takes it; "" is the sandbox's own user.
Expected<RemoteUser> parse_user(const std::string& text);

// A program to run in a sandbox, in a terminal or behind pipes.
struct RemoteProgram {
  std::vector<std::string> argv;
  std::string cwd = {};
  opensandbox::StringMap env = {};
  RemoteUser user = {};
};

// The program as it is, in place of the shell; without input its standard input is empty.
opensandbox::PtyCreateOptions piped_options(const RemoteProgram& program, bool with_input);

// For a terminal of type `term`: the program, or an interactive shell where there is none, bash where there is one.
opensandbox::PtyCreateOptions terminal_options(const RemoteProgram& program, const std::string& term);

}  // namespace osb::cli
