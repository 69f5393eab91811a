#pragma once

#include <string>
#include <vector>

namespace osb::cli {

// What a sandbox's shell is given to run in a terminal or behind pipes.

// The program as it is, in place of the shell; without input its standard input is empty.
std::string program_text(const std::vector<std::string>& argv, bool with_input);

// For a terminal of type `term`: the program, or an interactive shell, bash where there is one.
std::string terminal_text(const std::vector<std::string>& argv, const std::string& term);

}  // namespace osb::cli
