#pragma once

#include <string_view>

namespace osb::cli {

// For bash, zsh or fish; empty for another shell. The scripts ask `osb __complete -- WORDS..` for one candidate per
// line, its help behind a tab, and the line ":files" where a file name may stand.
std::string_view completion_script(std::string_view shell);

}  // namespace osb::cli
