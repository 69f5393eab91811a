#include <charconv>

#include "mcp/encoding.h"
#include "mcp/schema.h"
#include "mcp/tools/execution.h"

namespace osb::mcp::tools {
namespace {

net::awaitable<ToolResult> command_run(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  opensandbox::RunOptions options;
  options.cwd = call.text("working_directory");
  options.envs = call.text_map("env");
  options.background = call.flag("background");
  options.discard_output = true;  // the collector keeps what is wanted
  if (!call.argument("timeout_seconds").is_null()) options.timeout = seconds(call.number("timeout_seconds"));
  OutputCollector collector(call, call.integer("max_output_bytes"));
  // A background command outlives its call by intention.
  sdk::EventSink sink =
      options.background ? collect_into(collector) : interruptible(collector, call, *sandbox, Runs::Command);
  if (call.cancelled()) co_return tool_failure("CANCELLED", "the call was cancelled");
  auto execution = co_await sandbox->commands().run(call.text("command"), options, std::move(sink));
  if (!execution) co_return tool_failure(execution.error());
  co_return collector.encode(*execution);
}

net::awaitable<ToolResult> command_interrupt(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  auto done = co_await sandbox->commands().interrupt(call.text("execution_id"));
  if (!done) co_return tool_failure(done.error());
  co_return status_result("interrupted");
}

net::awaitable<ToolResult> command_status(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  auto status = co_await sandbox->commands().status(call.text("execution_id"));
  if (!status) co_return tool_failure(status.error());
  json::object out{{"id", status->id}, {"command", status->content}, {"running", status->running}};
  out["exit_code"] = status->exit_code ? json::value(*status->exit_code) : json::value(nullptr);
  out["error"] = or_null(status->error);
  out["started_at"] = or_null(status->started_at);
  out["finished_at"] = or_null(status->finished_at);
  co_return out;
}

std::expected<std::int64_t, ToolError> parse_cursor(const std::string& text) {
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < 0) {
    return tool_failure("INVALID_ARGUMENT", "cursor: expected what an earlier result gave as its cursor");
  }
  return out;
}

net::awaitable<ToolResult> command_logs(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  const std::string id = call.text("execution_id");
  std::int64_t from = 0;
  if (!call.argument("cursor").is_null()) {
    auto cursor = parse_cursor(call.text("cursor"));
    if (!cursor) co_return ToolFailure(cursor.error());
    from = *cursor;
  }
  // Asked before the logs: when it says that the command has ended, the logs are all there is.
  auto status = co_await sandbox->commands().status(id);
  if (!status) co_return tool_failure(status.error());
  auto logs = co_await sandbox->commands().logs(id, from);
  if (!logs) co_return tool_failure(logs.error());
  const auto most = static_cast<std::size_t>(call.integer("max_output_bytes"));
  std::string text = std::move(logs->text);
  std::int64_t next = logs->cursor;
  const bool truncated = text.size() > most;
  if (truncated) {
    std::size_t cut = most;  // not inside a character
    while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
    if (cut == 0) cut = most;
    next = logs->cursor - static_cast<std::int64_t>(text.size() - cut);
    text.resize(cut);
  }
  // A command may write anything; messages are UTF-8.
  auto content = to_text(std::move(text), Encoding::Utf8, true);
  if (!content) co_return tool_failure("NOT_TEXT", content.error().message);
  json::object out{{"id", id}, {"content", std::move(*content)}, {"cursor", std::to_string(next)}};
  out["truncated"] = truncated;
  out["skipped_bytes"] = logs->skipped_bytes;
  out["running"] = status->running;
  out["exit_code"] = status->exit_code ? json::value(*status->exit_code) : json::value(nullptr);
  co_return out;
}

net::awaitable<opensandbox::Result<void>> take_page(OutputCollector& collector,
                                                    std::span<const opensandbox::ExecutionEvent> events) {
  for (const auto& event : events) {
    collector.take(event);
    if (!collector.full()) continue;
    opensandbox::Error enough;
    enough.kind = opensandbox::ErrorKind::Cancelled;
    enough.code = "CANCELLED";
    co_return opensandbox::Failure(std::move(enough));
  }
  co_return opensandbox::Result<void>();
}

net::awaitable<ToolResult> command_output(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  auto cursor = parse_cursor(call.text("cursor"));
  if (!cursor) co_return ToolFailure(cursor.error());
  OutputCollector collector(call, call.integer("max_output_bytes"));
  opensandbox::RunOptions options;
  options.discard_output = true;
  const std::string id = call.text("execution_id");
  auto sink = [&collector](std::span<const opensandbox::ExecutionEvent> events) {
    return take_page(collector, events);
  };
  auto followed =
      co_await sandbox->commands().follow(id, static_cast<std::uint64_t>(*cursor), options, std::move(sink));
  if (!followed && !collector.full()) co_return tool_failure(followed.error());
  json::object out{{"id", id}, {"logs", collector.logs()}, {"truncated", collector.full()}};
  out["next_cursor"] = collector.next_cursor();
  out["skipped_events"] = collector.skipped();
  co_return out;
}

}  // namespace

std::vector<Tool> command_tools() {
  const json::object id = sandbox_id_argument();
  const json::object connect = connect_argument();
  const json::object execution = schema::string("The id that command_run returned.");
  const json::object one =
      schema::arguments({{"sandbox_id", id}, {"execution_id", execution}, {"connect_if_missing", connect}});
  const json::object time = schema::nullable(schema::string(""));
  return {
      {"command_run",
       "Run a command",
       "Run a shell command in a sandbox and return its output and exit code. A non-zero exit code is a normal result, "
       "not an error. Output beyond max_output_bytes is left out: fetch it with command_output and next_cursor. With "
       "background=true the call returns at once with an id for command_status and command_logs.",
       {.destructive = true},
       schema::arguments({{"sandbox_id", id},
                          {"command", schema::string("Shell command; pipes and redirections work.")},
                          {"background", schema::with_default(schema::boolean("Do not wait for its end."), false)},
                          {"working_directory", schema::nullable(schema::string("Directory to run it in."))},
                          {"env", schema::nullable(schema::string_map("Additional environment variables."))},
                          {"timeout_seconds", timeout_argument()},
                          {"max_output_bytes", max_output_argument()},
                          {"connect_if_missing", connect}}),
       execution_schema(),
       command_run,
       true},
      {"command_output",
       "More output of a command",
       "The next page of a command's output, where command_run or the last page was truncated.",
       {.read_only = true},
       schema::arguments({{"sandbox_id", id},
                          {"execution_id", execution},
                          {"cursor", schema::with_default(schema::string("next_cursor of the last page."), "0")},
                          {"max_output_bytes", max_output_argument()},
                          {"connect_if_missing", connect}}),
       output_page_schema(execution),
       command_output},
      {"command_interrupt",
       "Interrupt a command",
       "End a running command and the processes it started.",
       {.destructive = true},
       one,
       status_schema(),
       command_interrupt},
      {"command_status",
       "Status of a command",
       "Whether a command still runs, and its exit code.",
       {.read_only = true},
       one,
       schema::object({{"id", execution},
                       {"command", schema::string("")},
                       {"running", schema::boolean("")},
                       {"exit_code", schema::nullable(schema::integer(""))},
                       {"error", schema::nullable(schema::string(""))},
                       {"started_at", time},
                       {"finished_at", time}}),
       command_status},
      {"command_logs",
       "Logs of a background command",
       "Output of a command that was started with background=true, so far. Give the returned cursor to the next call "
       "to "
       "get only what is new.",
       {.read_only = true},
       schema::arguments(
           {{"sandbox_id", id},
            {"execution_id", execution},
            {"cursor", schema::nullable(schema::string("Where the last call ended. Default: the start."))},
            {"max_output_bytes", max_output_argument()},
            {"connect_if_missing", connect}}),
       schema::object({{"id", execution},
                       {"content", schema::string("stdout and stderr as they came.")},
                       {"cursor", schema::string("For the next call.")},
                       {"truncated", schema::boolean("There is more now: call again with the cursor.")},
                       {"skipped_bytes", schema::integer("Bytes that the sandbox no longer has.")},
                       {"running", schema::boolean("")},
                       {"exit_code", schema::nullable(schema::integer(""))}}),
       command_logs},
  };
}

}  // namespace osb::mcp::tools
