#include <charconv>

#include "base/utf8.h"
#include "mcp/encoding.h"
#include "mcp/schema.h"
#include "mcp/tools/files.h"

namespace osb::mcp::tools {
namespace {

constexpr std::int64_t kDefaultRead = 262'144;
constexpr std::int64_t kMostRead = 8'388'608;
constexpr std::int64_t kDefaultEntries = 1000;
constexpr std::int64_t kMostEntries = 10'000;

ToolFailure invalid(std::string message) { return tool_failure("INVALID_ARGUMENT", std::move(message)); }

opensandbox::Permission permission(const json::value& entry) {
  opensandbox::Permission out;
  out.mode = static_cast<int>(entry.at("mode").as_int64());
  if (const json::string* owner = entry.at("owner").if_string()) out.owner = *owner;
  if (const json::string* group = entry.at("group").if_string()) out.group = *group;
  return out;
}

// "bytes=0-99", "bytes=100-" or "bytes=-50", of a file of unknown length: that is asked for where it matters.
net::awaitable<std::expected<opensandbox::ReadRange, ToolError>> parse_range(sdk::Sandbox sandbox, std::string path,
                                                                             std::string header) {
  const auto wrong = [] { return invalid("range_header: expected bytes=first-last, bytes=first- or bytes=-count"); };
  std::string_view text = header;
  if (!text.starts_with("bytes=")) co_return wrong();
  text.remove_prefix(6);
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) co_return wrong();
  const auto number = [](std::string_view digits) -> std::optional<std::uint64_t> {
    std::uint64_t out = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    return out;
  };
  const auto first = number(text.substr(0, dash));
  const auto last = number(text.substr(dash + 1));
  opensandbox::ReadRange out;
  if (first && last && *first <= *last) {
    out.first_byte = first;
    out.byte_count = *last - *first + 1;
  } else if (first && dash + 1 == text.size()) {
    out.first_byte = first;
  } else if (dash == 0 && last) {
    auto info = co_await sandbox.files().info(path);
    if (!info) co_return tool_failure(info.error());
    out.first_byte = info->size - std::min(info->size, *last);
  } else {
    co_return wrong();
  }
  co_return out;
}

net::awaitable<ToolResult> file_read(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  const std::string path = call.text("path");
  const auto encoding = parse_encoding(call.text("encoding"));
  if (!encoding) co_return invalid(encoding.error().message);
  opensandbox::ReadRange range;
  const std::string header = call.text("range_header");
  const bool lines = !call.argument("first_line").is_null() || !call.argument("line_count").is_null();
  if (!header.empty() && lines) co_return invalid("give range_header or first_line and line_count, not both");
  if (!header.empty()) {
    auto parsed = co_await parse_range(*sandbox, path, header);
    if (!parsed) co_return ToolFailure(parsed.error());
    range = *parsed;
  }
  if (lines) {
    range.first_line =
        call.argument("first_line").is_null() ? 1 : static_cast<std::uint64_t>(call.integer("first_line"));
    if (!call.argument("line_count").is_null())
      range.line_count = static_cast<std::uint64_t>(call.integer("line_count"));
  }
  auto got = co_await read_some(*sandbox, path, range, static_cast<std::size_t>(call.integer("max_bytes")));
  if (!got) co_return tool_failure(got.error());
  if (got->truncated && *encoding == Encoding::Utf8) cut_at_character(got->bytes);
  const std::uint64_t next = range.first_byte.value_or(0) + got->bytes.size();
  // Whoever asks for a part in bytes may cut a character in two.
  auto text = to_text(std::move(got->bytes), *encoding, !header.empty());
  if (!text) co_return tool_failure("NOT_TEXT", path + ": " + text.error().message);
  json::object out{{"path", path}, {"content", std::move(*text)}, {"truncated", got->truncated}};
  out["next_range"] =
      got->truncated && !lines ? json::value("bytes=" + std::to_string(next) + "-") : json::value(nullptr);
  co_return out;
}

net::awaitable<ToolResult> file_write(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  const std::string path = call.text("path");
  const auto encoding = parse_encoding(call.text("encoding"));
  if (!encoding) co_return invalid(encoding.error().message);
  auto bytes = to_bytes(call.text("content"), *encoding);
  if (!bytes) co_return invalid(bytes.error().message);
  opensandbox::Permission access{static_cast<int>(call.integer("mode")), call.text("owner"), call.text("group")};
  auto written = co_await sandbox->files().write(path, std::move(*bytes), std::move(access));
  if (!written) co_return tool_failure(written.error());
  call.sandboxes().note_file(sandbox->id(), path);
  co_return status_result("written");
}

net::awaitable<ToolResult> file_delete(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  const std::vector<std::string> paths = call.texts("paths");
  auto done = co_await sandbox->files().remove(paths);
  if (!done) co_return tool_failure(done.error());
  for (const std::string& path : paths) call.sandboxes().forget_file(sandbox->id(), path);
  co_return status_result("deleted");
}

// A page of a list: from the cursor, at most `limit`.
ToolResult page_of(const Call& call, const std::vector<opensandbox::FileInfo>& all) {
  std::size_t from = 0;
  if (const std::string cursor = call.text("cursor"); !cursor.empty()) {
    const auto [end, error] = std::from_chars(cursor.data(), cursor.data() + cursor.size(), from);
    if (error != std::errc() || end != cursor.data() + cursor.size() || from > all.size()) {
      return invalid("cursor: expected the next_cursor of an earlier result");
    }
  }
  const std::size_t to = std::min(all.size(), from + static_cast<std::size_t>(call.integer("limit")));
  json::array result;
  for (std::size_t i = from; i < to; ++i) result.push_back(encode_file_info(all[i]));
  json::object out{{"result", std::move(result)}, {"total", all.size()}};
  out["next_cursor"] = to < all.size() ? json::value(std::to_string(to)) : json::value(nullptr);
  return out;
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
  const std::vector<std::string> paths = call.texts("paths");
  auto infos = co_await sandbox->files().infos(paths);
  if (!infos) co_return tool_failure(infos.error());
  json::array out;
  for (const auto& [path, info] : *infos) out.push_back(encode_file_info(info));
  co_return out;
}

net::awaitable<ToolResult> file_create_directories(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  for (const json::value& entry : call.argument("entries").as_array()) {
    std::vector<std::string> path = {std::string(entry.at("path").as_string())};
    auto made = co_await sandbox->files().make_directories(std::move(path), permission(entry));
    if (!made) co_return tool_failure(made.error());
  }
  co_return status_result("created");
}

net::awaitable<ToolResult> file_delete_directories(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  const std::vector<std::string> paths = call.texts("paths");
  auto done = co_await sandbox->files().remove_directories(paths);
  if (!done) co_return tool_failure(done.error());
  for (const std::string& path : paths) call.sandboxes().forget_directory(sandbox->id(), path);
  co_return status_result("deleted");
}

net::awaitable<ToolResult> file_move(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  std::vector<std::pair<std::string, std::string>> moves;
  for (const json::value& entry : call.argument("entries").as_array()) {
    moves.emplace_back(entry.at("source").as_string(), entry.at("destination").as_string());
  }
  auto done = co_await sandbox->files().move_all(moves);
  if (!done) co_return tool_failure(done.error());
  for (const auto& [from, to] : moves) {
    if (call.sandboxes().forget_file(sandbox->id(), from)) call.sandboxes().note_file(sandbox->id(), to);
    call.sandboxes().forget_directory(sandbox->id(), from);
  }
  co_return status_result("moved");
}

net::awaitable<ToolResult> file_set_permissions(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  std::map<std::string, opensandbox::Permission> paths;
  for (const json::value& entry : call.argument("entries").as_array()) {
    paths[std::string(entry.at("path").as_string())] = permission(entry);
  }
  auto done = co_await sandbox->files().set_permissions(std::move(paths));
  if (!done) co_return tool_failure(done.error());
  co_return status_result("changed");
}

net::awaitable<ToolResult> file_replace_contents(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  std::vector<opensandbox::Files::Replacement> replacements;
  for (const json::value& entry : call.argument("entries").as_array()) {
    replacements.push_back({std::string(entry.at("path").as_string()), std::string(entry.at("old_content").as_string()),
                            std::string(entry.at("new_content").as_string())});
  }
  auto counts = co_await sandbox->files().replace(replacements);
  if (!counts) co_return tool_failure(counts.error());
  json::array out;
  for (const auto& [path, count] : *counts) out.push_back(json::object{{"path", path}, {"replaced_count", count}});
  co_return out;
}

json::object entry_argument(int default_mode) {
  return schema::object(
      {{"path", schema::string("")},
       {"mode", schema::with_default(schema::integer("Permissions, written as in chmod: 755."), default_mode)},
       {"owner", schema::nullable(schema::string("User name."))},
       {"group", schema::nullable(schema::string("Group name."))}});
}

}  // namespace

std::vector<Tool> file_tools() {
  const json::object id = sandbox_id_argument();
  const json::object connect = connect_argument();
  const json::object path = schema::string("Path in the sandbox.");
  const json::object encoding =
      schema::with_default(schema::string("utf-8, ascii, latin-1, or base64 for binary files."), "utf-8");
  const auto count = [](std::string_view description, std::int64_t value, std::int64_t most) {
    return schema::with_default(schema::at_most(schema::at_least(schema::integer(description), 1), most), value);
  };
  const auto position = [](std::string_view description) {
    return schema::nullable(schema::at_least(schema::integer(description), 1));
  };
  const auto paths = [&](std::string_view description) {
    return schema::arguments(
        {{"sandbox_id", id}, {"paths", schema::string_list(description)}, {"connect_if_missing", connect}});
  };
  const auto entries = [&](json::object entry) {
    return schema::arguments(
        {{"sandbox_id", id}, {"entries", schema::list_of(std::move(entry), "")}, {"connect_if_missing", connect}});
  };
  const json::object limit = count("Most entries to return.", kDefaultEntries, kMostEntries);
  const json::object cursor = schema::nullable(schema::string("next_cursor of the last page."));
  const json::object page = schema::object({{"result", schema::list_of(file_info_schema(), "")},
                                            {"total", schema::integer("Entries on all pages.")},
                                            {"next_cursor", schema::nullable(schema::string("null: the last page."))}});
  return {
      {"file_read",
       "Read a file",
       "Read a file of a sandbox. At most max_bytes are returned; when truncated, go on with range_header=next_range. "
       "Use first_line and line_count for a part of a text file.",
       {.read_only = true},
       schema::arguments({{"sandbox_id", id},
                          {"path", path},
                          {"encoding", encoding},
                          {"range_header", schema::nullable(schema::string("A part in bytes, e.g. bytes=0-1023."))},
                          {"first_line", position("A part in lines: the first one, from 1.")},
                          {"line_count", position("How many lines.")},
                          {"max_bytes", count("Most bytes to return.", kDefaultRead, kMostRead)},
                          {"connect_if_missing", connect}}),
       schema::object({{"path", path},
                       {"content", schema::string("")},
                       {"truncated", schema::boolean("The file goes on.")},
                       {"next_range", schema::nullable(schema::string("range_header for what follows."))}}),
       file_read},
      {"file_write",
       "Write a file",
       "Write a file in a sandbox; an existing one is replaced, directories are made.",
       {.destructive = true, .idempotent = true},
       schema::arguments(
           {{"sandbox_id", id},
            {"path", path},
            {"content", schema::string("")},
            {"encoding", encoding},
            {"mode", schema::with_default(schema::integer("Permissions, written as in chmod: 644."), 755)},
            {"owner", schema::nullable(schema::string("User name."))},
            {"group", schema::nullable(schema::string("Group name."))},
            {"connect_if_missing", connect}}),
       status_schema(),
       file_write},
      {"file_delete",
       "Delete files",
       "Delete files in a sandbox.",
       {.destructive = true},
       paths("Files to delete."),
       status_schema(),
       file_delete},
      {"file_search",
       "Search for files",
       "Find files below a directory whose name matches a glob pattern.",
       {.read_only = true},
       schema::arguments({{"sandbox_id", id},
                          {"path", schema::string("Directory to search in.")},
                          {"pattern", schema::string("Glob for the name, e.g. *.py.")},
                          {"limit", limit},
                          {"cursor", cursor},
                          {"connect_if_missing", connect}}),
       page,
       file_search,
       false,
       true},
      {"file_list_directory",
       "List a directory",
       "List what is in a directory of a sandbox.",
       {.read_only = true},
       schema::arguments({{"sandbox_id", id},
                          {"path", schema::string("Directory to list.")},
                          {"depth", count("How many levels.", 1, 32)},
                          {"limit", limit},
                          {"cursor", cursor},
                          {"connect_if_missing", connect}}),
       page,
       file_list_directory,
       false,
       true},
      {"file_get_info",
       "File info",
       "Type, size, owner, mode and times of files.",
       {.read_only = true},
       paths("Files and directories."),
       schema::object({{"result", schema::list_of(file_info_schema(), "")}}),
       file_get_info},
      {"file_create_directories",
       "Create directories",
       "Create directories in a sandbox, with their parents.",
       {.idempotent = true},
       entries(entry_argument(755)),
       status_schema(),
       file_create_directories},
      {"file_delete_directories",
       "Delete directories",
       "Delete directories in a sandbox and all that is in them.",
       {.destructive = true},
       paths("Directories to delete."),
       status_schema(),
       file_delete_directories},
      {"file_move",
       "Move files",
       "Move or rename files and directories in a sandbox.",
       {.destructive = true},
       entries(schema::object({{"source", schema::string("")}, {"destination", schema::string("")}})),
       status_schema(),
       file_move},
      {"file_set_permissions",
       "Change permissions",
       "Change mode, owner and group of files and directories.",
       {.destructive = true, .idempotent = true},
       entries(entry_argument(0)),
       status_schema(),
       file_set_permissions},
      {"file_replace_contents",
       "Replace in files",
       "Replace every occurrence of a text in files. A count of 0 means that the text was not there.",
       {.destructive = true},
       entries(schema::object({{"path", schema::string("")},
                               {"old_content", schema::string("Text to look for, exactly.")},
                               {"new_content", schema::string("Text to put there.")}})),
       schema::object({{"result", schema::list_of(schema::object({{"path", schema::string("")},
                                                                  {"replaced_count", schema::integer("")}}),
                                                  "")}}),
       file_replace_contents},
  };
}

}  // namespace osb::mcp::tools
