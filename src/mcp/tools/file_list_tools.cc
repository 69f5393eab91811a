#include "mcp/schema.h"
#include "mcp/tools/files.h"
#include "mcp/tools/list_page.h"

namespace osb::mcp::tools {
namespace {

json::object encode_entry(const Call& call, const opensandbox::FileInfo& info) {
  json::object out = encode_file_info(info);
  if (call.published()) return out;
  // Models that want to know more ask file_get_info or stat.
  out.erase("created_at");
  out.erase("group");
  return out;
}

ToolResult page_of(const Call& call, const std::vector<opensandbox::FileInfo>& all) {
  return list_page(call, "files", all.size(), [&](std::size_t i) { return encode_entry(call, all[i]); });
}

net::awaitable<ToolResult> file_search(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  auto found = co_await sandbox->files().search(call.text("path"), call.text("pattern"));
  if (!found) co_return tool_failure(found.error());
  co_return page_of(call, *found);
}

net::awaitable<ToolResult> file_list_directory(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  auto found = co_await sandbox->files().list(call.text("path"), static_cast<int>(call.integer("depth")));
  if (!found) co_return tool_failure(found.error());
  co_return page_of(call, *found);
}

net::awaitable<ToolResult> file_get_info(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  auto infos = co_await sandbox->files().infos(call.texts("paths"));
  if (!infos) co_return tool_failure(infos.error());
  json::array out;
  for (const auto& [path, info] : *infos) out.push_back(encode_file_info(info));
  co_return out;
}

}  // namespace

std::vector<Tool> file_list_tools() {
  const json::object id = sandbox_id_argument();
  const json::object connect = connect_argument();
  return {
      {.name = "file_search",
       .title = "Search for files",
       .description = "Find files below a directory by name. Returns files (path, type, size, mode, owner, "
                      "modified_at), total, next_cursor. To search in their contents run grep with command_run.",
       .hints = {.read_only = true},
       .input = schema::arguments({{"sandbox_id", id},
                                   {"path", schema::string("Directory")},
                                   {"pattern", schema::string("Glob for the name, e.g. *.py")},
                                   {"limit", limit_argument()},
                                   {"cursor", cursor_argument()},
                                   {"connect_if_missing", connect}}),
       .output = list_schema(file_info_schema()),
       .run = file_search,
       .pages = true,
       .common = true},
      {.name = "file_list_directory",
       .title = "List a directory",
       .description = "List a directory. Returns the same as file_search.",
       .hints = {.read_only = true},
       .input = schema::arguments(
           {{"sandbox_id", id},
            {"path", schema::string("")},
            {"depth",
             schema::with_default(schema::at_most(schema::at_least(schema::integer("How many levels"), 1), 32), 1)},
            {"limit", limit_argument()},
            {"cursor", cursor_argument()},
            {"connect_if_missing", connect}}),
       .output = list_schema(file_info_schema()),
       .run = file_list_directory,
       .pages = true,
       .common = true},
      {.name = "file_get_info",
       .title = "File info",
       .description = "Type, size, owner, group, mode and times of files and directories.",
       .hints = {.read_only = true},
       .input =
           schema::arguments({{"sandbox_id", id}, {"paths", schema::string_list("")}, {"connect_if_missing", connect}}),
       .output = schema::object({{"result", schema::list_of(file_info_schema(), "")}}),
       .run = file_get_info},
  };
}

}  // namespace osb::mcp::tools
