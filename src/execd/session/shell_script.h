#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sys/spawn.h"

namespace osb::execd {

// The shell process of one run: it restores the session's state, evaluates the user's text and saves the state. Text
// goes in and state comes out through memory files, never through arguments (which are limited in size and visible to
// others), the output stream or the file system.
//
// bash moves its end of the state file to a high close-on-exec number, so no program the user starts inherits it, and
// saves in its EXIT trap too; a user who sets that trap himself has his state saved when his text ends without `exit`.
// Another sh saves exported variables and the directory only, and only when the text ends without `exit`.
class ShellScript {
 public:
  // `shell`: path of bash or sh. `restore`: see ShellState. `command`: the user's text, without NUL.
  static Result<ShellScript> make(std::string_view shell, std::string_view restore, std::string_view command);

  // Sets program, arguments and descriptors. The plan refers to this object's files.
  void apply(sys::SpawnPlan& plan) const;
  // The state that the shell has saved; empty if there is none, or too much to be kept.
  std::string saved() const;

 private:
  std::string shell_;
  bool bash_ = true;
  UniqueFd restore_;  // bash: restore script, NUL, command
  UniqueFd command_;  // sh only
  UniqueFd state_;
};

// The end of a complete dump.
inline constexpr std::string_view kDumpEnd("\0END", 4);
inline constexpr std::size_t kMaxSavedState = 32 * 1024 * 1024;

}  // namespace osb::execd
