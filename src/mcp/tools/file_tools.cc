#include <algorithm>
#include <functional>
#include <utility>

#include <boost/json/serialize.hpp>

#include "base/parse_number.h"
#include "client/missing_file.h"
#include "mcp/encoding.h"
#include "mcp/reply_text.h"
#include "mcp/schema.h"
#include "mcp/tools/files.h"

namespace osb::mcp::tools {
namespace {

constexpr std::int64_t kDefaultRead = 32'768;
constexpr std::int64_t kDefaultPublishedRead = 262'144;
constexpr std::int64_t kMostRead = 8'388'608;
constexpr std::size_t kOtherReadFields = 512;  // of a result, encoded

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
  const auto first = parse_number<std::uint64_t>(text.substr(0, dash));
  const auto last = parse_number<std::uint64_t>(text.substr(dash + 1));
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

std::size_t max_read_bytes(const Call& call) {
  const std::int64_t* given = call.argument("max_bytes").if_int64();
  if (given != nullptr) return static_cast<std::size_t>(*given);
  return static_cast<std::size_t>(call.published() ? kDefaultPublishedRead : kDefaultRead);
}

// Takes off the end of a part what does not fit into the reply. Base64 makes 4 characters of 3 bytes.
void cut_to_reply(const Call& call, std::size_t other_fields, Encoding encoding, Part& part) {
  const std::size_t room = call.reply_bytes() - std::min(call.reply_bytes() / 2, other_fields + kOtherReadFields);
  std::size_t fits = 0;
  if (encoding == Encoding::Base64)
    fits = room / 4 * 3;
  else if (encoding == Encoding::Latin1)
    fits = fitting_prefix(part.bytes, {part.bytes.size(), room / 2});  // a byte becomes up to two
  else
    fits = fitting_lines_prefix(part.bytes, {part.bytes.size(), room});
  if (fits >= part.bytes.size()) return;
  part.bytes.resize(fits);
  part.truncated = true;
}

// How the rest of a truncated part is read.
void encode_rest(json::object& out, const Part& part, const opensandbox::ReadRange& range, bool published) {
  if (!range.first_line) {
    out["next_range"] = "bytes=" + std::to_string(range.first_byte.value_or(0) + part.bytes.size()) + "-";
    return;
  }
  const auto lines = static_cast<std::uint64_t>(std::ranges::count(part.bytes, '\n'));
  if (published) return;  // that shape has no word for it
  if (part.bytes.ends_with('\n')) {
    out["next_first_line"] = *range.first_line + lines;
  } else {
    out["note"] = "line " + std::to_string(*range.first_line + lines) + " is too long: read it with range_header";
  }
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
  auto got = co_await read_some(*sandbox, path, range, max_read_bytes(call));
  if (!got) co_return tool_failure(got.error());
  cut_to_reply(call, reply_cost(path), *encoding, *got);
  if (got->truncated && *encoding == Encoding::Utf8) cut_at_character(got->bytes);
  json::object out{{"path", path}, {"content", nullptr}, {"truncated", got->truncated}, {"next_range", nullptr}};
  if (got->truncated) encode_rest(out, *got, range, call.published());
  // A part in bytes may begin or end inside a character.
  auto text = to_text(std::move(got->bytes), *encoding, !header.empty());
  if (!text) co_return tool_failure("NOT_TEXT", path + ": " + text.error().message);
  out["content"] = *text;
  if (!call.published() && !got->truncated) out.erase("truncated");
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

using Remove = opensandbox::async::Task<void> (opensandbox::async::Files::*)(std::vector<std::string>) const;

// execd calls it a success when there is nothing to delete. So the paths are looked at first, and the missing ones are
// named. The published server does not look.
net::awaitable<ToolResult> remove_paths(Call& call, Remove remove,
                                        std::function<void(const std::string&, const std::string&)> forget) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  const opensandbox::async::Files files = sandbox->files();
  std::vector<std::string> there = call.texts("paths");
  json::array missing;
  if (!call.published()) {
    for (const std::string& path : std::exchange(there, {})) {
      auto info = co_await files.info(path);
      if (!info && !opensandbox::is_missing_file(info.error())) co_return tool_failure(info.error());
      if (info) there.push_back(path);
      if (!info) missing.emplace_back(path);
    }
    if (there.empty() && !missing.empty()) {
      co_return tool_failure("FILE_NOT_FOUND",
                             "nothing was deleted: no such path in the sandbox: " + json::serialize(missing));
    }
  }
  if (auto done = co_await (files.*remove)(there); !done) co_return tool_failure(done.error());
  for (const std::string& path : there) forget(sandbox->id(), path);
  json::object out{{"status", "deleted"}};
  if (!missing.empty()) out["missing"] = std::move(missing);
  co_return out;
}

net::awaitable<ToolResult> file_delete(Call& call) {
  return remove_paths(
      call, &opensandbox::async::Files::remove,
      [&call](const std::string& sandbox, const std::string& path) { call.sandboxes().forget_file(sandbox, path); });
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
  return remove_paths(call, &opensandbox::async::Files::remove_directories,
                      [&call](const std::string& sandbox, const std::string& path) {
                        call.sandboxes().forget_directory(sandbox, path);
                      });
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

json::object mode_argument(int value) { return schema::with_default(schema::integer("As in chmod: 644"), value); }

json::object entry_argument(int mode) {
  return schema::object({{"path", schema::string("")},
                         {"mode", mode_argument(mode)},
                         {"owner", schema::nullable(schema::string(""))},
                         {"group", schema::nullable(schema::string(""))}});
}

json::object position_argument(std::string_view description) {
  return schema::nullable(schema::at_least(schema::integer(description), 1));
}

}  // namespace

std::vector<Tool> file_tools() {
  const json::object id = sandbox_id_argument();
  const json::object connect = connect_argument();
  const json::object path = schema::string("");
  const json::object encoding =
      schema::with_default(schema::string("utf-8, ascii, latin-1, or base64 for binary files"), "utf-8");
  const json::object paths =
      schema::arguments({{"sandbox_id", id}, {"paths", schema::string_list("")}, {"connect_if_missing", connect}});
  const auto entries = [&](json::object entry) {
    return schema::arguments(
        {{"sandbox_id", id}, {"entries", schema::list_of(std::move(entry), "")}, {"connect_if_missing", connect}});
  };
  const json::object replaced = schema::object({{"path", path}, {"replaced_count", schema::integer("")}});
  return {
      {.name = "file_read",
       .title = "Read a file",
       .description = "Read a file. Returns content; if truncated, call again with range_header=next_range (or "
                      "first_line=next_first_line).",
       .hints = {.read_only = true},
       .input = schema::arguments(
           {{"sandbox_id", id},
            {"path", path},
            {"encoding", encoding},
            {"range_header", schema::nullable(schema::string("A part in bytes: bytes=0-1023"))},
            {"first_line", position_argument("A part in lines, from 1")},
            {"line_count", position_argument("")},
            {"max_bytes",
             schema::nullable(schema::at_most(schema::at_least(schema::integer("Default 32768"), 1), kMostRead))},
            {"connect_if_missing", connect}}),
       .output = schema::object({{"path", path},
                                 {"content", schema::string("")},
                                 {"truncated", schema::boolean("The file goes on.")},
                                 {"next_range", schema::nullable(schema::string("range_header for what follows."))}}),
       .run = file_read,
       .common = true},
      {.name = "file_write",
       .title = "Write a file",
       .description = "Create or replace a file; missing directories are made.",
       .hints = {.destructive = true, .idempotent = true},
       .input = schema::arguments({{"sandbox_id", id},
                                   {"path", path},
                                   {"content", schema::string("")},
                                   {"encoding", encoding},
                                   {"mode", mode_argument(755)},
                                   {"owner", schema::nullable(schema::string(""))},
                                   {"group", schema::nullable(schema::string(""))},
                                   {"connect_if_missing", connect}}),
       .output = status_schema(),
       .run = file_write,
       .common = true},
      {.name = "file_delete",
       .title = "Delete files",
       .description = "Delete files.",
       .hints = {.destructive = true},
       .input = paths,
       .output = status_schema(),
       .run = file_delete,
       .common = true},
      {.name = "file_create_directories",
       .title = "Create directories",
       .description = "Create directories and their parents.",
       .hints = {.idempotent = true},
       .input = entries(entry_argument(755)),
       .output = status_schema(),
       .run = file_create_directories,
       .common = true},
      {.name = "file_delete_directories",
       .title = "Delete directories",
       .description = "Delete directories with everything in them.",
       .hints = {.destructive = true},
       .input = paths,
       .output = status_schema(),
       .run = file_delete_directories,
       .common = true},
      {.name = "file_move",
       .title = "Move files",
       .description = "Move or rename files and directories.",
       .hints = {.destructive = true},
       .input = entries(schema::object({{"source", schema::string("")}, {"destination", schema::string("")}})),
       .output = status_schema(),
       .run = file_move,
       .common = true},
      {.name = "file_set_permissions",
       .title = "Change permissions",
       .description = "Change mode, owner and group of files and directories.",
       .hints = {.destructive = true, .idempotent = true},
       .input = entries(entry_argument(0)),
       .output = status_schema(),
       .run = file_set_permissions},
      {.name = "file_replace_contents",
       .title = "Replace in files",
       .description = "Replace every occurrence of a text in files: the way to edit a file. Returns replaced_count per "
                      "file; 0: old_content was not there.",
       .hints = {.destructive = true},
       .input = entries(schema::object({{"path", schema::string("")},
                                        {"old_content", schema::string("Exact text, not a pattern")},
                                        {"new_content", schema::string("")}})),
       .output = schema::object({{"result", schema::list_of(replaced, "")}}),
       .run = file_replace_contents,
       .common = true},
  };
}

}  // namespace osb::mcp::tools
