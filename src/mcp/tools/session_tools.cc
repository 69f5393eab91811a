#include <charconv>

#include "mcp/schema.h"
#include "mcp/tools/execution.h"

namespace osb::mcp::tools {
namespace {

// Where a page of kept output begins: "<run>.<line>".
struct Cursor {
  std::uint64_t run = 0;
  std::size_t line = 0;
};

std::string cursor_of(std::uint64_t run, std::size_t line) { return std::to_string(run) + '.' + std::to_string(line); }

std::optional<Cursor> parse_cursor(const std::string& text) {
  Cursor out;
  const char* const end = text.data() + text.size();
  const auto [dot, error] = std::from_chars(text.data(), end, out.run);
  if (error != std::errc() || dot == end || *dot != '.') return std::nullopt;
  const auto [last, wrong] = std::from_chars(dot + 1, end, out.line);
  if (wrong != std::errc() || last != end) return std::nullopt;
  return out;
}

net::awaitable<ToolResult> session_create(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  auto id = co_await sandbox->sessions().create(call.text("working_directory"));
  if (!id) co_return tool_failure(id.error());
  co_return json::object{{"session_id", *id}};
}

// Cancelling this drops the stream, and a sandbox ends a session's command when its client leaves; the session stays.
net::awaitable<ToolResult> session_run(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  opensandbox::SessionRunOptions options;
  options.cwd = call.text("working_directory");
  options.discard_output = true;
  if (!call.argument("timeout_seconds").is_null()) options.timeout = seconds(call.number("timeout_seconds"));
  std::shared_ptr<KeptOutput::Run> rest;
  KeptOutput& kept = call.sandboxes().kept_output();
  OutputCollector collector(call, call.integer("max_output_bytes"), [&](const opensandbox::ExecutionEvent& line) {
    if (!rest) rest = kept.begin(call.text("sandbox_id"), call.text("session_id"));
    kept.add(*rest, {line.text, line.timestamp, line.type == opensandbox::ExecutionEvent::Type::Stderr});
  });
  auto execution =
      co_await sandbox->sessions().run(call.text("session_id"), call.text("command"), options, collect_into(collector));
  if (!execution) co_return tool_failure(execution.error());
  json::object out = collector.encode(*execution);
  out["next_cursor"] = rest ? json::value(cursor_of(rest->number, 0)) : json::value(nullptr);
  co_return out;
}

net::awaitable<ToolResult> session_output(Call& call) {
  const auto at = parse_cursor(call.text("cursor"));
  if (!at) co_return tool_failure("INVALID_ARGUMENT", "cursor: expected the next_cursor of an earlier result");
  const auto run = call.sandboxes().kept_output().find(at->run);
  if (!run || run->sandbox_id != call.text("sandbox_id") || run->session_id != call.text("session_id") ||
      at->line > run->lines.size()) {
    co_return tool_failure("OUTPUT_GONE",
                           "this output is not kept any more: a later run printed too much, or the "
                           "session was deleted");
  }
  const auto most = static_cast<std::size_t>(call.integer("max_output_bytes"));
  json::array out_lines, error_lines;
  std::size_t bytes = 0, line = at->line;
  for (; line < run->lines.size(); ++line) {
    const KeptOutput::Line& next = run->lines[line];
    // The first line is always there: a page that holds nothing would never end.
    const bool any = line > at->line;
    if (any && (bytes + next.text.size() + 1 > most || line - at->line >= OutputCollector::kMostLines)) break;
    bytes += next.text.size() + 1;
    (next.is_error ? error_lines : out_lines)
        .push_back(json::object{{"text", next.text}, {"timestamp", next.timestamp}, {"is_error", next.is_error}});
  }
  const bool more = line < run->lines.size();
  json::object out{{"id", run->session_id}, {"truncated", more}, {"skipped_events", more ? 0 : run->dropped}};
  out["logs"] = json::object{{"stdout", std::move(out_lines)}, {"stderr", std::move(error_lines)}};
  out["next_cursor"] = more ? json::value(cursor_of(run->number, line)) : json::value(nullptr);
  co_return out;
}

net::awaitable<ToolResult> session_delete(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  auto done = co_await sandbox->sessions().remove(call.text("session_id"));
  if (!done) co_return tool_failure(done.error());
  call.sandboxes().kept_output().forget_session(call.text("sandbox_id"), call.text("session_id"));
  co_return status_result("deleted");
}

}  // namespace

std::vector<Tool> session_tools() {
  const json::object id = sandbox_id_argument();
  const json::object connect = connect_argument();
  const json::object session = schema::string("The id that session_create returned.");
  const json::object directory = schema::nullable(schema::string("Directory to start in."));
  return {
      {"session_create",
       "Open a shell session",
       "Open a shell in a sandbox that keeps its variables, functions and directory between session_run calls.",
       {},
       schema::arguments({{"sandbox_id", id}, {"working_directory", directory}, {"connect_if_missing", connect}}),
       schema::object({{"session_id", session}}),
       session_create},
      {"session_run",
       "Run in a shell session",
       "Run a command in a shell session. Unlike command_run it sees what earlier calls exported, defined and where "
       "they went. stderr comes as stdout. Output beyond max_output_bytes is left out: fetch it with session_output "
       "and "
       "next_cursor.",
       {.destructive = true},
       schema::arguments({{"sandbox_id", id},
                          {"session_id", session},
                          {"command", schema::string("Shell command.")},
                          {"working_directory", directory},
                          {"timeout_seconds", timeout_argument()},
                          {"max_output_bytes", max_output_argument()},
                          {"connect_if_missing", connect}}),
       execution_schema(),
       session_run},
      {"session_output",
       "More output of a shell session",
       "The next page of what a session_run printed, where it or the last page was truncated. Kept are up to 8 MiB of "
       "the session's last run that printed too much.",
       {.read_only = true},
       schema::arguments({{"sandbox_id", id},
                          {"session_id", session},
                          {"cursor", schema::string("next_cursor of the last page.")},
                          {"max_output_bytes", max_output_argument()}}),
       output_page_schema(session),
       session_output},
      {"session_delete",
       "Close a shell session",
       "Close a shell session and end what runs in it.",
       {.destructive = true},
       schema::arguments({{"sandbox_id", id}, {"session_id", session}, {"connect_if_missing", connect}}),
       status_schema(),
       session_delete},
  };
}

}  // namespace osb::mcp::tools
