#pragma once

#include <optional>
#include <string>

#include "cli/args/command.h"
#include "cli/command_io.h"
#include "cli/problem.h"

namespace osb::cli {

// Where a command takes a secret from. Never from the command line: every user of the machine can read that.
struct SecretOptions {
  std::string file;  // "-" is stdin
  std::optional<std::int64_t> descriptor;
  std::string entry;  // of the operator: there is no secret to be read
};

// --from-file, --from-fd and --entry.
void add_secret_options(Command& command, SecretOptions& options);

// The secret, without one line end at its end. With neither option it is asked for on the terminal, where nothing that
// is typed is shown. `name` is for the question.
Expected<std::string> read_secret(const SecretOptions& options, const std::string& name);

}  // namespace osb::cli
