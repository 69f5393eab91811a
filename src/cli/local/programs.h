#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace osb::cli {

// Where the other programs are: next to osb, else where PATH has sandboxd. Not found: osb's own directory.
std::filesystem::path program_directory();

struct ProgramOutput {
  int code = 0;
  std::string text;  // of standard output
};

// Runs a program to its end, without input and with standard error dropped.
Result<ProgramOutput> run_program_for_output(const std::filesystem::path& program,
                                             const std::vector<std::string>& arguments);

// Nothing as root. Otherwise starts this command line again through sudo and does not return, or says why not.
Result<void> become_root();

}  // namespace osb::cli
