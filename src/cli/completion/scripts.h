#pragma once

#include <string_view>

namespace osb::cli {

// For bash, zsh or fish; empty for another shell. The scripts ask `osb __complete -- WORDS..` for one candidate per
// line, its help behind a tab, the line ":files" where a file name may stand, and the line ":nospace" where a candidate
// is only the beginning of a word.
std::string_view completion_script(std::string_view shell);

}  // namespace osb::cli
