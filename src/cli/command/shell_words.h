#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace osb::cli {

// A word as a POSIX shell reads it back: as it is where that is safe, else in single quotes.
std::string shell_quote(std::string_view word);

// Words as one command line that a shell splits into the same words.
std::string shell_join(const std::vector<std::string>& words);

}  // namespace osb::cli
