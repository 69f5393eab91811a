#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::taskexecutor {

struct Options {
  enum class Action { Serve, ShowHelp, ShowVersion };
  Action action = Action::Serve;

  std::string data_dir = "/var/lib/sandbox/tasks";
  std::string listen_addr = "0.0.0.0:5758";
  bool sidecar = false;
  std::string main_container = "main";

  std::string log_dir = "logs";
  int log_max_megabytes = 100;
  int log_max_backups = 10;
  int log_max_days = 7;
};

// The environment first, then flags: one or two dashes, a value after `=` or as the next word. A flag that is on or off
// takes its value only after `=`. Code::InvalidRequest names the flag or variable.
Result<Options> parse_options(std::span<const std::string_view> args,
                              const std::map<std::string, std::string, std::less<>>& env);

const char* usage();

}  // namespace osb::taskexecutor
