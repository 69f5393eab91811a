#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "mcp/client_session.h"
#include "mcp/http_endpoint.h"
#include "opensandbox/connection.h"

namespace osb::mcp {

extern const std::string_view kUsage;

struct CommandLine {
  bool help = false, version = false;
  bool stdio = true;
  bool all_tools = false;
  opensandbox::ConnectionConfig connection;
  SessionOptions session;
  HttpOptions http;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  std::string api_key_file, token_file;
  LogLevel log_level = LogLevel::Info;
};

// Touches nothing but its arguments.
Result<CommandLine> parse_command_line(const std::vector<std::string>& args);

// Reads keys and tokens from the files and variables that hold them, and refuses an address beyond this machine without
// a token, because everyone could use it.
Result<void> fill_secrets(CommandLine& line);

}  // namespace osb::mcp
