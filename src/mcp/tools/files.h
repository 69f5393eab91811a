#pragma once

#include <string>

#include "mcp/tools/tools.h"

// Shared by the file tools and the resources.
namespace osb::mcp::tools {

struct Part {
  std::string bytes;
  bool truncated = false;  // there was more than was wanted
};

// At most `max_bytes` of a file. Works where files do not tell their size (/proc).
net::awaitable<opensandbox::Result<Part>> read_some(sdk::Sandbox sandbox, std::string path,
                                                    opensandbox::ReadRange range, std::size_t max_bytes);

// Takes an incomplete UTF-8 sequence off the end.
void cut_at_character(std::string& text);

json::object file_info_schema();
json::object encode_file_info(const opensandbox::FileInfo& info);

}  // namespace osb::mcp::tools
