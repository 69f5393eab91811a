#pragma once

#include <functional>
#include <string_view>

#include "mcp/tools/tools.h"

// Lists that may be long: a page of at most `limit` items, as many as fit into the reply.
namespace osb::mcp::tools {

// Arguments of tools with such lists.
json::object limit_argument();
json::object cursor_argument();
// The published shape: {"result": [..], "total": .., "next_cursor": ..}.
json::object list_schema(json::object item);

// Bytes of an item and its comma in the encoded reply.
std::size_t encoded_size(const json::object& item);

// The page that the call wants of `total` items, as {"<name>": [..], "total": .., "next_cursor": ..}; published results
// have the name `result`.
ToolResult list_page(const Call& call, std::string_view name, std::size_t total,
                     const std::function<json::object(std::size_t)>& item);

}  // namespace osb::mcp::tools
