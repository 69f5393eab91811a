#include "execd/session/shell_state.h"

#include <algorithm>
#include <array>
#include <set>

#include "execd/run/run.h"
#include "execd/session/shell_script.h"

namespace osb::execd {
namespace {

bool is_name_char(char c, bool first) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (!first && c >= '0' && c <= '9');
}

std::size_t name_length(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size() && is_name_char(text[n], n == 0)) ++n;
  return n;
}

// How long the shell word at the front is: up to a newline that is not quoted. Nothing: a quote is not closed.
std::optional<std::size_t> value_length(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') return i;
    if (c == '\\') {
      ++i;
    } else if (c == '"' || c == '\'') {
      const bool escapes = c == '"' || (i > 0 && text[i - 1] == '$');
      for (++i; i < text.size() && text[i] != c; ++i) {
        if (escapes && text[i] == '\\') ++i;
      }
      if (i >= text.size()) return std::nullopt;
    }
  }
  return text.size();
}

// Variables that a shell sets by itself or that must begin anew in every shell, prompts (the contract excludes them),
// and our own. Setting some of these has effects: RANDOM, LINENO, BASH_ARGV0.
constexpr auto kNotKept = std::to_array<std::string_view>({"BASH",
                                                           "BASHOPTS",
                                                           "BASHPID",
                                                           "BASH_ALIASES",
                                                           "BASH_ARGC",
                                                           "BASH_ARGV",
                                                           "BASH_ARGV0",
                                                           "BASH_CMDS",
                                                           "BASH_COMMAND",
                                                           "BASH_EXECUTION_STRING",
                                                           "BASH_LINENO",
                                                           "BASH_REMATCH",
                                                           "BASH_SOURCE",
                                                           "BASH_SUBSHELL",
                                                           "BASH_VERSINFO",
                                                           "BASH_VERSION",
                                                           "BASH_XTRACEFD",
                                                           "COMP_WORDBREAKS",
                                                           "DIRSTACK",
                                                           "EPOCHREALTIME",
                                                           "EPOCHSECONDS",
                                                           "EUID",
                                                           "FUNCNAME",
                                                           "GROUPS",
                                                           "HISTCMD",
                                                           "HOSTTYPE",
                                                           "LINENO",
                                                           "MACHTYPE",
                                                           "OPTARG",
                                                           "OPTERR",
                                                           "OPTIND",
                                                           "OSTYPE",
                                                           "PIPESTATUS",
                                                           "PPID",
                                                           "PROMPT_COMMAND",
                                                           "PS1",
                                                           "PS2",
                                                           "PS3",
                                                           "PS4",
                                                           "PWD",
                                                           "RANDOM",
                                                           "SECONDS",
                                                           "SHELLOPTS",
                                                           "SHLVL",
                                                           "SRANDOM",
                                                           "UID",
                                                           "_",
                                                           "__osb",
                                                           "__osb_text",
                                                           kRunIdVariable});

bool is_kept(std::string_view name) { return std::ranges::find(kNotKept, name) == kNotKept.end(); }

void add_line(std::string& to, std::string_view line) {
  to += line;
  to += '\n';
}

}  // namespace

std::optional<std::vector<Declaration>> split_declarations(std::string_view text) {
  std::vector<Declaration> out;
  while (!text.empty()) {
    Declaration one;
    std::string_view rest = text;
    if (rest.starts_with("export ")) {
      rest.remove_prefix(7);
      one.exported = true;
    } else if (rest.starts_with("declare -")) {
      rest.remove_prefix(9);
      const std::size_t space = rest.find(' ');
      if (space == std::string_view::npos) return std::nullopt;
      one.exported = rest.substr(0, space).contains('x');
      rest.remove_prefix(space + 1);
    } else {
      return std::nullopt;
    }
    one.name = rest.substr(0, name_length(rest));
    rest.remove_prefix(one.name.size());
    if (one.name.empty() || (!rest.empty() && rest.front() != '=' && rest.front() != '\n')) return std::nullopt;
    const auto length = value_length(rest);
    if (!length) return std::nullopt;
    rest.remove_prefix(*length);
    one.text = text.substr(0, text.size() - rest.size());
    out.push_back(one);
    if (!rest.empty()) rest.remove_prefix(1);
    text = rest;
  }
  return out;
}

bool ShellState::accept(std::string_view dump) {
  if (!dump.ends_with(kDumpEnd)) return false;
  dump.remove_suffix(kDumpEnd.size());
  const std::size_t first = dump.find('\0');
  const std::size_t second = first == std::string_view::npos ? first : dump.find('\0', first + 1);
  if (second == std::string_view::npos) return false;
  std::string_view cwd = dump.substr(0, first);
  if (cwd.ends_with('\n')) cwd.remove_suffix(1);
  const auto all = split_declarations(dump.substr(second + 1));
  if (!all || !cwd.starts_with('/')) return false;

  // `exit` inside a function: its local variables are in the list and hide global ones, so only what is exported
  // counts, and the rest stays as it was.
  const bool in_function =
      std::ranges::any_of(*all, [](const Declaration& d) { return d.name == "FUNCNAME" && d.text.contains('='); });
  std::string kept;
  std::set<std::string_view> names;
  for (const Declaration& d : *all) {
    if (!is_kept(d.name) || (in_function && !d.exported)) continue;
    add_line(kept, d.text);
    names.insert(d.name);
  }
  if (in_function) {
    for (const Declaration& d : split_declarations(declarations_).value_or(std::vector<Declaration>())) {
      if (!d.exported && !names.contains(d.name)) add_line(kept, d.text);
    }
  }
  cwd_ = cwd;
  code_ = dump.substr(first + 1, second - first - 1);
  declarations_ = std::move(kept);
  saved_ = true;
  return true;
}

std::string ShellState::restore_script(const Environment& initial) const {
  if (!saved_) return {};
  const auto all = split_declarations(declarations_).value_or(std::vector<Declaration>());
  std::set<std::string_view> names;
  for (const Declaration& d : all) names.insert(d.name);
  std::string script;
  for (const auto& [name, value] : initial) {
    const bool valid = !name.empty() && name_length(name) == name.size();
    if (!valid || !is_kept(name) || names.contains(name)) continue;
    script += script.empty() ? "unset -v " : " ";
    script += name;
  }
  if (!script.empty()) script += '\n';
  script += declarations_;
  script += code_;  // last: nothing behind it is lost where a function does not parse
  return script;
}

}  // namespace osb::execd
