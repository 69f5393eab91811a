#include "cli/terminal/remote_program.h"

#include "cli/command/shell_words.h"

namespace osb::cli {

std::string program_text(const std::vector<std::string>& argv, bool with_input) {
  return "exec " + shell_join(argv) + (with_input ? "" : " </dev/null");
}

std::string terminal_text(const std::vector<std::string>& argv, const std::string& term) {
  const std::string type = "TERM=" + shell_quote(term.empty() ? "xterm" : term) + "; export TERM; ";
  if (!argv.empty()) return type + "exec " + shell_join(argv);
  return type + "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh";
}

}  // namespace osb::cli
