#include "execd/session/shell_script.h"

#include <cerrno>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::execd {
namespace {

// Numbers in the shell.
constexpr int kCommandFd = 7;
constexpr int kRestoreFd = 8;
constexpr int kStateFd = 9;

// Traces and traps of the user must not show the commands behind the user's text.
#define OSB_QUIET "{ builtin trap - DEBUG; builtin set +xeu; } >/dev/null 2>&1; "
#define OSB_SAVE                                                               \
  "{ builtin pwd; builtin printf \"\\0\"; "                                    \
  "builtin shopt -p; builtin umask -p; builtin declare -f; builtin alias -p; " \
  "builtin printf \"\\0\"; builtin declare -p; builtin printf \"\\0END\"; } 2>/dev/null >&239"

// Closing 9 for a group makes bash keep it as 10, the first free number from there on, with close-on-exec; the copy at
// 239 inherits that flag. No name of ours stays defined while the user's text runs, and it starts at line 1. (`builtin`
// gets around functions of the user's; it would make the redirections of `exec` temporary.)
constexpr const char* kBashScript =
    "{ exec 239>&10; } 9>&- 2>/dev/null; exec 9>&-; "
    "IFS= read -r -d \"\" -u 8 __osb; IFS= read -r -d \"\" -u 8 __osb_text; exec 8<&-; "
    "eval \"$__osb\" 2>/dev/null; builtin trap -- '" OSB_QUIET OSB_SAVE
    "' EXIT; "
    "builtin eval \"$__osb_text\"; "
    "{ builtin set -- \"$?\"; } >/dev/null 2>&1; " OSB_QUIET OSB_SAVE "; exec 239>&-; builtin exit \"$1\"";
constexpr const char* kBashPrefix = "builtin unset -v __osb __osb_text BASH_EXECUTION_STRING; ";

#undef OSB_SAVE
#undef OSB_QUIET

// Programs of the user do not inherit 9: it is closed around the user's text. `.` opens its file anew, so the numbers
// can be closed by the text's first words.
constexpr const char* kShScript =
    ". /proc/self/fd/8; { . /proc/self/fd/7; } 9>&-; "
    "{ set -- \"$?\"; set +xeu; } >/dev/null 2>&1; "
    "{ pwd; printf \"\\0\\0\"; export -p; printf \"\\0END\"; } 2>/dev/null >&9; exit \"$1\"";
constexpr const char* kShPrefix = "exec 7<&- 8<&-; ";

Result<UniqueFd> memory_file(std::initializer_list<std::string_view> parts) {
  UniqueFd file(::memfd_create("session", MFD_CLOEXEC));
  if (!file) return sys::from_errno("memfd_create", errno);
  std::uint64_t at = 0;  // the shell reads from the file's position
  for (const std::string_view part : parts) {
    if (auto written = sys::write_all_at(file.get(), at, part, "memory file"); !written)
      return Failure(written.error());
    at += part.size();
  }
  return file;
}

}  // namespace

Result<ShellScript> ShellScript::make(std::string_view shell, std::string_view restore, std::string_view command) {
  constexpr std::string_view kNul("\0", 1);
  ShellScript out;
  out.shell_ = shell;
  out.bash_ = shell.substr(shell.rfind('/') + 1) == "bash";
  auto state = memory_file({});
  if (!state) return Failure(state.error());
  out.state_ = std::move(*state);
  if (out.bash_) {
    auto both = memory_file({restore, kNul, kBashPrefix, command, kNul});
    if (!both) return Failure(both.error());
    out.restore_ = std::move(*both);
    return out;
  }
  auto before = memory_file({restore});
  if (!before) return Failure(before.error());
  auto text = memory_file({kShPrefix, command, "\n"});
  if (!text) return Failure(text.error());
  out.restore_ = std::move(*before);
  out.command_ = std::move(*text);
  return out;
}

void ShellScript::apply(sys::SpawnPlan& plan) const {
  plan.program = shell_;
  if (bash_) {
    plan.argv = {"bash", "--noprofile", "--norc", "-c", kBashScript};
  } else {
    plan.argv = {"sh", "-c", kShScript};
    plan.fds.emplace_back(kCommandFd, command_.get());
  }
  plan.fds.emplace_back(kRestoreFd, restore_.get());
  plan.fds.emplace_back(kStateFd, state_.get());
}

std::string ShellScript::saved() const {
  struct stat info{};
  if (::fstat(state_.get(), &info) < 0 || info.st_size <= 0) return {};
  if (static_cast<std::size_t>(info.st_size) > kMaxSavedState) return {};
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t got = 0;
  while (got < text.size()) {
    const ssize_t n = ::pread(state_.get(), text.data() + got, text.size() - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return {};
    got += static_cast<std::size_t>(n);
  }
  return text;
}

}  // namespace osb::execd
