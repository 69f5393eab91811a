#pragma once

#include <string>
#include <string_view>

#include "cli/problem.h"

namespace osb::cli {

// The file that `osb config init` writes: every key, commented out.
std::string_view config_template();

// `text` with one key set, everything else as it was, comments included: the line that sets it, or the commented-out
// one, is replaced; else a line is added to the table; else the table is added. `key` is "table.field" or
// "profiles.NAME.field".
Expected<std::string> set_in_config(std::string_view text, std::string_view key, std::string_view value);

// `text` without the lines that set the key, everything else as it was.
std::string unset_in_config(std::string_view text, std::string_view table, std::string_view field);
// `text` without the table: its header and all lines that set one of its keys. Comments in it stay.
std::string remove_table(std::string_view text, std::string_view table);

}  // namespace osb::cli
