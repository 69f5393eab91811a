// Messages of MCP clients: decoding, and the check of a tool's arguments.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mcp/json_rpc.h"
#include "mcp/resources.h"
#include "mcp/schema.h"
#include "mcp/tool.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace mcp = osb::mcp;
  static const std::vector<mcp::Tool> tools = mcp::all_tools();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  mcp::Payload payload = mcp::decode_payload(text);
  if (payload.messages.empty() || mcp::answers_wanted(payload) > payload.messages.size()) std::abort();
  for (mcp::Decoded& each : payload.messages) {
    if (const auto* malformed = std::get_if<mcp::Malformed>(&each)) {
      const std::string answer = mcp::encode_error(malformed->id, malformed->error);
      if (answer.find('\n') != std::string::npos) std::abort();
      continue;
    }
    mcp::Message& message = std::get<mcp::Message>(each);
    if (message.kind == mcp::Message::Kind::Request && message.id.is_null()) std::abort();
    for (const mcp::Tool& tool : tools) {
      auto checked = mcp::conform(tool.input, message.params);
      // Arguments that were accepted once are accepted again, unchanged.
      if (checked && mcp::conform(tool.input, *checked) != *checked) std::abort();
    }
  }
  if (const auto uri = mcp::parse_resource_uri(text)) {
    const auto again = mcp::parse_resource_uri(mcp::make_resource_uri(uri->sandbox_id, uri->path));
    if (!again || again->sandbox_id != uri->sandbox_id || again->path != uri->path) std::abort();
  }
  return 0;
}
