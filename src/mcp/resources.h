#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "async/net.h"
#include "mcp/call.h"
#include "mcp/json_rpc.h"

namespace osb::mcp {

using RpcResult = std::expected<json::object, RpcError>;
using RpcFailure = std::unexpected<RpcError>;

// Files of sandboxes as resources: sandbox://<id>/<path>. Listed are the root of every sandbox that the client uses and
// the files it has written; any other file can be read too. A directory's content is a JSON list.

// A part of a list, by the cursor in `params`: {"<name>": [..], "nextCursor": ..}. -32602 for a cursor that is none.
RpcResult page_of(std::string_view name, const json::array& all, const json::object& params);

json::array list_resources(const Sandboxes& sandboxes);
json::array list_resource_templates();

struct ResourceUri {
  std::string sandbox_id;
  std::string path;  // absolute
};
// Nothing for what is not one of ours.
std::optional<ResourceUri> parse_resource_uri(std::string_view uri);
std::string make_resource_uri(std::string_view sandbox_id, std::string_view path);

// Text where it is UTF-8, else a blob. The call outlives the coroutine; its argument is `uri`.
net::awaitable<RpcResult> read_resource(Call& call);

}  // namespace osb::mcp
