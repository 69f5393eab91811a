#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "execd/path/path.h"

namespace osb::execd {

// One line (its value may span several) of what `declare -p` or `export -p` prints.
struct Declaration {
  std::string_view text;  // the whole, without its newline
  std::string_view name;
  bool exported = false;
};

// Nothing where the text is not a sequence of declarations with all quotes closed.
std::optional<std::vector<Declaration>> split_declarations(std::string_view text);

// The state of a session between two shells: the working directory and a script that puts variables, functions,
// aliases, umask and shopt options back. The script is the shell's own output with its own quoting, so values of any
// bytes survive.
class ShellState {
 public:
  explicit ShellState(std::string cwd) : cwd_(std::move(cwd)) {}

  const std::string& cwd() const { return cwd_; }
  // False until the first run has saved something.
  bool saved() const { return saved_; }

  // Takes over what a shell wrote at its end (see shell_script.h): directory, NUL, options and functions, NUL,
  // declarations, NUL, a fixed end mark. False, and nothing changes, where that is incomplete: the shell was killed or
  // replaced before its end.
  bool accept(std::string_view dump);

  // To be evaluated by a shell that was started with the variables of `initial`: those that are no longer there are
  // unset.
  std::string restore_script(const Environment& initial) const;

 private:
  std::string cwd_;
  std::string code_;          // shopt and umask commands, functions, aliases
  std::string declarations_;  // one per line
  bool saved_ = false;
};

}  // namespace osb::execd
