#pragma once

#include <expected>
#include <string>
#include <vector>

#include "async/net.h"
#include "mcp/json_rpc.h"
#include "opensandbox/error.h"

namespace osb::mcp {

class Call;

// Why a tool failed.
struct ToolError {
  std::string message;  // a sentence for the model: what is wrong and what to do
  std::string code;     // for programs: the server's, INVALID_ARGUMENT, NOT_AVAILABLE, ..
  int status = 0;       // HTTP status, where there was one
  std::string request_id;
  // The structured result besides the error; null for none. Has to fit the tool's output schema.
  json::value structured = nullptr;
};

// An object, or an array: that is wrapped as {"result": [..]}.
using ToolResult = std::expected<json::value, ToolError>;
using ToolFailure = std::unexpected<ToolError>;

ToolFailure tool_failure(std::string code, std::string message);
ToolFailure tool_failure(const opensandbox::Error& error);

// Hints for clients that ask people before they call.
struct Hints {
  bool read_only = false;
  bool destructive = false;
  bool idempotent = false;
};

struct Tool {
  std::string name;
  std::string title;
  std::string description;  // when to use it and what comes back, in few words: models read all of them
  Hints hints = {};
  json::object input = {};   // JSON Schemas
  json::object output = {};  // of the published shape
  // Arguments have been checked against `input`. The call outlives the coroutine.
  net::awaitable<ToolResult> (*run)(Call&) = nullptr;
  // False: cancelling the call cancels the coroutine. True: it only learns of it (Call::on_cancel, Call::cancelled) and
  // brings what it has begun elsewhere to an end.
  bool ends_itself = false;
  // The published result is {"result": [..], ..}: its text has a block per item.
  bool pages = false;
  // Offered also without --all-tools.
  bool common = false;
};

// Every tool, in the order that clients see.
std::vector<Tool> all_tools();
// The tools of the published server and the few others that most agents use.
std::vector<Tool> common_tools();

// How results are encoded. Plain: one text block with compact JSON, without null members, at most `max_bytes` long.
// Published: as the published server does it, with output schemas, and the result twice: structured and as indented
// text.
struct ReplyStyle {
  static constexpr std::size_t kDefaultBytes = 65'536;
  // Of a published result, as if it were plain; it takes up to 2.5 times as much. The official Python client takes no
  // event of more than 1 MiB over HTTP.
  static constexpr std::size_t kPublishedBytes = 400'000;
  bool published = false;
  std::size_t max_bytes = kDefaultBytes;
};

json::object describe(const Tool& tool, bool published);
// The result of tools/call. Failures are results too: models read them.
json::object encode_tool_result(const Tool& tool, const ToolResult& result, const ReplyStyle& style);

}  // namespace osb::mcp
