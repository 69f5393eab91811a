#include "mcp/tool.h"

#include <algorithm>
#include <iterator>

#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include "mcp/reply_text.h"
#include "mcp/schema.h"
#include "mcp/tools/tools.h"

namespace osb::mcp {
namespace {

json::object text_block(std::string text) { return {{"type", "text"}, {"text", std::move(text)}}; }

// `_meta` has it; models have no use for it.
opensandbox::Error without_request_id(opensandbox::Error error) {
  error.request_id.clear();
  return error;
}

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
  out.message = without_request_id(error).to_string();
  out.status = error.status;
  out.request_id = error.request_id;
  return ToolFailure(std::move(out));
}

std::vector<Tool> all_tools() {
  std::vector<Tool> all;
  for (auto* make :
       {tools::sandbox_tools, tools::command_tools, tools::session_tools, tools::file_tools, tools::file_list_tools,
        tools::image_tools, tools::snapshot_tools, tools::egress_tools, tools::credential_tools, tools::code_tools}) {
    std::vector<Tool> some = make();
    all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  return all;
}

std::vector<Tool> common_tools() {
  std::vector<Tool> all = all_tools();
  std::erase_if(all, [](const Tool& tool) { return !tool.common; });
  return all;
}

json::object describe(const Tool& tool, bool published) {
  json::object out{{"name", tool.name}, {"title", tool.title}, {"description", tool.description}};
  const Hints& hints = tool.hints;
  if (published) {
    out["inputSchema"] = tool.input;
    out["outputSchema"] = tool.output;
    out["annotations"] = json::object{{"title", tool.title},
                                      {"readOnlyHint", hints.read_only},
                                      {"destructiveHint", hints.destructive},
                                      {"idempotentHint", hints.idempotent},
                                      {"openWorldHint", true}};
    return out;
  }
  out["inputSchema"] = schema::compact(tool.input);
  // Only hints that differ from the protocol's defaults.
  json::object annotations;
  if (hints.read_only) annotations["readOnlyHint"] = true;
  if (!hints.read_only && !hints.destructive) annotations["destructiveHint"] = false;
  if (!hints.read_only && hints.idempotent) annotations["idempotentHint"] = true;
  if (!annotations.empty()) out["annotations"] = std::move(annotations);
  return out;
}

namespace {

json::object encode_error(const Tool& tool, const ToolError& error, bool published) {
  json::object details{{"code", error.code}};
  if (error.status != 0) details["status"] = error.status;
  if (!error.request_id.empty()) details["request_id"] = error.request_id;
  json::object out{{"_meta", json::object{{"opensandbox/error", std::move(details)}}}};
  if (published && !error.structured.is_null()) out["structuredContent"] = error.structured;
  json::array content;
  content.push_back(text_block("Error executing tool " + tool.name + ": " + error.message));
  out["content"] = std::move(content);
  return out;
}

json::object encode_published(const Tool& tool, const json::value& result) {
  json::array content;
  json::object out;
  if (const json::array* items = result.if_array()) {
    for (const json::value& item : *items) content.push_back(text_block(pretty(item)));
    out["structuredContent"] = json::object{{"result", result}};
  } else if (tool.pages) {
    json::object page = result.as_object();
    out["structuredContent"] = page;
    for (const json::value& item : page["result"].as_array()) content.push_back(text_block(pretty(item)));
    page.erase("result");
    if (!page["next_cursor"].is_null()) content.push_back(text_block("There is more: " + json::serialize(page)));
  } else {
    content.push_back(text_block(pretty(result)));
    out["structuredContent"] = result;
  }
  out["content"] = std::move(content);
  return out;
}

json::value without_nulls(const json::value& value) {
  if (const json::object* members = value.if_object()) {
    json::object out;
    for (const auto& [key, member] : *members) {
      if (!member.is_null()) out[key] = without_nulls(member);
    }
    return out;
  }
  if (const json::array* items = value.if_array()) {
    json::array out;
    for (const json::value& item : *items) out.push_back(without_nulls(item));
    return out;
  }
  return value;
}

// The bound of every reply. Tools that can return much keep to it by themselves and offer pages; this is for the rest.
void cut_to(json::object& out, std::size_t max_bytes) {
  const std::size_t size = json::serialize(out).size();
  if (size <= max_bytes) return;
  json::value& text = out["content"].as_array().front().as_object()["text"];
  const std::string whole(text.as_string());
  const std::size_t others = std::min(max_bytes, json::serialize(out).size() - json::serialize(text).size() + 256);
  const std::size_t cut = fitting_prefix(whole, {whole.size(), max_bytes - others});
  text = whole.substr(0, cut) +
         fmt::format("\n[... {} bytes left out: the reply would be longer than {} bytes; ask for less ...]",
                     whole.size() - cut, max_bytes);
}

}  // namespace

json::object encode_tool_result(const Tool& tool, const ToolResult& result, const ReplyStyle& style) {
  json::object out;
  if (!result) {
    out = encode_error(tool, result.error(), style.published);
  } else if (style.published) {
    out = encode_published(tool, *result);
  } else {
    json::array content;
    content.push_back(text_block(compact(without_nulls(*result))));
    out["content"] = std::move(content);
  }
  out["isError"] = !result;
  if (!style.published) cut_to(out, style.max_bytes);
  return out;
}

}  // namespace osb::mcp
