#include "mcp/tool.h"

#include <iterator>

#include <boost/json/serialize.hpp>

#include "mcp/tools/tools.h"

namespace osb::mcp {
namespace {

json::object text_block(std::string text) { return {{"type", "text"}, {"text", std::move(text)}}; }

}  // namespace

ToolFailure tool_failure(std::string code, std::string message) {
  ToolError error;
  error.code = std::move(code);
  error.message = std::move(message);
  return ToolFailure(std::move(error));
}

ToolFailure tool_failure(const opensandbox::Error& error) {
  ToolError out;
  out.code = error.code;
  out.message = error.to_string();
  out.status = error.status;
  out.request_id = error.request_id;
  return ToolFailure(std::move(out));
}

std::vector<Tool> all_tools() {
  std::vector<Tool> all;
  for (auto* make : {tools::sandbox_tools, tools::command_tools, tools::session_tools, tools::file_tools,
                     tools::snapshot_tools, tools::egress_tools, tools::code_tools}) {
    std::vector<Tool> some = make();
    all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  return all;
}

json::object describe(const Tool& tool) {
  return {{"name", tool.name},
          {"title", tool.title},
          {"description", tool.description},
          {"inputSchema", tool.input},
          {"outputSchema", tool.output},
          {"annotations", json::object{{"title", tool.title},
                                       {"readOnlyHint", tool.hints.read_only},
                                       {"destructiveHint", tool.hints.destructive},
                                       {"idempotentHint", tool.hints.idempotent},
                                       {"openWorldHint", true}}}};
}

json::object encode_tool_result(const Tool& tool, const ToolResult& result) {
  json::array content;
  json::object out;
  if (!result) {
    const ToolError& error = result.error();
    content.push_back(text_block("Error executing tool " + tool.name + ": " + error.message));
    json::object details{{"code", error.code}};
    if (error.status != 0) details["status"] = error.status;
    if (!error.request_id.empty()) details["request_id"] = error.request_id;
    out["_meta"] = json::object{{"opensandbox/error", std::move(details)}};
    if (!error.structured.is_null()) out["structuredContent"] = error.structured;
  } else if (const json::array* items = result->if_array()) {
    for (const json::value& item : *items) content.push_back(text_block(pretty(item)));
    out["structuredContent"] = json::object{{"result", *result}};
  } else if (tool.pages) {
    json::object page = result->as_object();
    out["structuredContent"] = page;
    for (const json::value& item : page["result"].as_array()) content.push_back(text_block(pretty(item)));
    page.erase("result");
    if (!page["next_cursor"].is_null()) content.push_back(text_block("There is more: " + json::serialize(page)));
  } else {
    content.push_back(text_block(pretty(*result)));
    out["structuredContent"] = *result;
  }
  out["content"] = std::move(content);
  out["isError"] = !result;
  return out;
}

}  // namespace osb::mcp
