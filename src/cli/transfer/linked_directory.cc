#include "cli/transfer/linked_directory.h"

#include "cli/command/shell_words.h"

namespace osb::cli {

std::optional<std::string> directory_behind(const opensandbox::Sandbox& sandbox, const std::string& path) {
  // A path that begins with a dash or is looked up in CDPATH would mean something else to cd.
  const std::string plain = path.starts_with('/') ? path : "./" + path;
  const auto run = sandbox.commands().run("cd " + shell_quote(plain) + " 2>/dev/null && pwd -P");
  if (!run || run->exit_code != 0 || run->stdout_lines.size() != 1) return std::nullopt;
  return run->stdout_lines.front();
}

}  // namespace osb::cli
