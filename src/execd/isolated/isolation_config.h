#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "execd/isolated/isolation_options.h"

namespace osb::execd {

// Reads the settings of isolated sessions from the contract's TOML file (--isolation-config) into `options`, which
// keeps what the file does not name. A key that execd does not know, or a wall that it does not have, is an error: a
// session without it would be more open than asked for. `source` names the file in errors.
Result<void> read_isolation_config(std::string_view text, const std::string& source, IsolationOptions& options);

// The same for the file itself.
Result<void> load_isolation_config(const std::string& path, IsolationOptions& options);

}  // namespace osb::execd
