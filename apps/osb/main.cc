#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/config/config.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  // A reader of our output that goes away (head) ends osb with an error on write, not with a signal.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return osb::cli::run_program(std::vector<std::string>(argv + 1, argv + argc), osb::cli::process_environment());
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "osb: internal error: %s. Please report it.\n", bug.what());
    return 1;
  }
}
