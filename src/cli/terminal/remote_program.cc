#include "cli/terminal/remote_program.h"

#include "base/parse_number.h"
#include "cli/command/shell_words.h"

namespace osb::cli {
namespace {

opensandbox::PtyCreateOptions options_of(const RemoteProgram& program, std::string command) {
  return {.cwd = program.cwd,
          .command = std::move(command),
          .envs = program.env,
          .uid = program.user.uid,
          .gid = program.user.gid,
          .user = program.user.name};
}

}  // namespace

Expected<RemoteUser> parse_user(const std::string& text) {
  RemoteUser out;
  const std::size_t colon = text.find(':');
  const std::string first = text.substr(0, colon);
  out.uid = parse_number<std::uint32_t>(first);
  if (colon != std::string::npos) {
    out.gid = parse_number<std::uint32_t>(std::string_view(text).substr(colon + 1));
    if (!out.uid || !out.gid) {
      return usage_error("Invalid value for '-u': '" + text + "'.", "Write NAME, UID or UID:GID.");
    }
  }
  if (!out.uid) out.name = first;
  return out;
}

opensandbox::PtyCreateOptions piped_options(const RemoteProgram& program, bool with_input) {
  return options_of(program, "exec " + shell_join(program.argv) + (with_input ? "" : " </dev/null"));
}

opensandbox::PtyCreateOptions terminal_options(const RemoteProgram& program, const std::string& term) {
  const std::string type = "TERM=" + shell_quote(term.empty() ? "xterm" : term) + "; export TERM; ";
  if (!program.argv.empty()) return options_of(program, type + "exec " + shell_join(program.argv));
  return options_of(program, type + "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh");
}

}  // namespace osb::cli
