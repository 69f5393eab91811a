#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/parse_number.h"
#include "base/time.h"
#include "mcp/encoding.h"
#include "mcp/schema.h"
#include "mcp/tools/network_hint.h"
#include "mcp/tools/published_output.h"

namespace osb::mcp::tools {
namespace {

ToolFailure wrong_cursor() {
  return tool_failure("INVALID_ARGUMENT", "cursor: expected the next_cursor of an earlier result");
}

// "<number of an event>", or "<number>.<bytes of the line behind it>".
std::string cursor_of(const OutputPosition& at) {
  return at.offset == 0 ? std::to_string(at.seq) : fmt::format("{}.{}", at.seq, at.offset);
}

std::optional<OutputPosition> parse_cursor(std::string_view text) {
  const std::size_t dot = text.find('.');
  const auto seq = parse_number<std::uint64_t>(text.substr(0, dot));
  const auto offset =
      dot == std::string_view::npos ? std::optional<std::size_t>(0) : parse_number<std::size_t>(text.substr(dot + 1));
  if (!seq || !offset) return std::nullopt;
  return OutputPosition{0, *seq, *offset};
}

std::string output_advice(std::string_view id, std::string_view cursor) {
  return fmt::format("command_output(execution_id=\"{}\", cursor=\"{}\") returns them", id, cursor);
}

Continuation continue_command(const std::string& id, const OutputPosition& at) {
  // Sandboxes that do not number their events cannot be asked for the rest.
  if (at.seq == 0) return {"", "run it again with its output in a file, and read that with file_read"};
  std::string cursor = cursor_of(at);
  return {cursor, output_advice(id, cursor)};
}

net::awaitable<ToolResult> command_run(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  opensandbox::RunOptions options;
  options.cwd = call.text("working_directory");
  options.envs = call.text_map("env");
  options.background = call.flag("background");
  options.discard_output = true;  // kept by `output`
  if (!call.argument("timeout_seconds").is_null()) options.timeout = seconds(call.number("timeout_seconds"));
  const auto output = make_run_output(call);
  // A background command outlives its call by intention.
  sdk::EventSink sink =
      options.background ? collect_into(*output) : interruptible(*output, call, *sandbox, Runs::Command);
  if (call.cancelled()) co_return tool_failure("CANCELLED", "the call was cancelled");
  const Timestamp began = timestamp_now();
  auto execution = co_await sandbox->commands().run(call.text("command"), options, std::move(sink));
  if (!execution) co_return tool_failure(execution.error());
  if (options.background && !call.published()) co_return json::object{{"id", execution->id}, {"running", true}};
  json::object out =
      output->encode(*execution, [&](const OutputPosition& at) { return continue_command(execution->id, at); });
  if (!call.published() && execution->exit_code.value_or(0) != 0) co_await add_network_hint(out, *sandbox, began);
  co_return out;
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
  add_reason(out, status->reason, status->reason_message);
  out["error"] = or_null(status->error);
  out["started_at"] = or_null(status->started_at);
  out["finished_at"] = or_null(status->finished_at);
  co_return out;
}

// Any bytes, as text of a message.
std::string readable(std::string_view bytes) {
  return to_text(std::string(bytes), Encoding::Utf8, true).value_or(std::string());
}

net::awaitable<ToolResult> command_logs(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  const std::string id = call.text("execution_id");
  const auto from = call.argument("cursor").is_null() ? 0 : parse_number<std::int64_t>(call.text("cursor"));
  if (!from || *from < 0) co_return wrong_cursor();
  // Asked before the logs: when it says that the command has ended, the logs are all there is.
  auto status = co_await sandbox->commands().status(id);
  if (!status) co_return tool_failure(status.error());
  auto logs = co_await sandbox->commands().logs(id, from);
  if (!logs) co_return tool_failure(logs.error());
  const std::size_t cut = fitting_prefix(logs->text, output_room(call));
  const std::size_t left = logs->text.size() - cut;
  json::object out{{"id", id}, {"content", readable(std::string_view(logs->text).substr(0, cut))}};
  out["cursor"] = std::to_string(logs->cursor - static_cast<std::int64_t>(left));
  out["truncated"] = left > 0;
  out["skipped_bytes"] = logs->skipped_bytes;
  out["running"] = status->running;
  out["exit_code"] = status->exit_code ? json::value(*status->exit_code) : json::value(nullptr);
  add_reason(out, status->reason, status->reason_message);
  co_return out;
}

// --- command_output: the output of any command. Of background commands the sandbox keeps the bytes, of others the
// --- events, so each kind has its own cursor.

void encode_state(json::object& out, const opensandbox::CommandStatus& status) {
  out["running"] = status.running;
  if (status.exit_code) out["exit_code"] = *status.exit_code;
  add_reason(out, status.reason, status.reason_message);
}

// Without a cursor: begin and end. With one: a page from there on.
json::object background_output(const Call& call, const std::string& id, const opensandbox::CommandLogs& logs,
                               bool page) {
  const Room room = output_room(call);
  const std::string_view text = logs.text;
  const auto begin = logs.cursor - static_cast<std::int64_t>(text.size());
  json::object out;
  std::int64_t next = logs.cursor;
  if (text.size() <= room.bytes && reply_cost(text) <= room.cost) {
    out["stdout"] = readable(text);
  } else if (page) {
    const std::size_t cut = fitting_lines_prefix(text, room);
    out["stdout"] = readable(text.substr(0, cut));
    out["truncated"] = true;
    next = begin + static_cast<std::int64_t>(cut);
  } else {
    const std::size_t head = fitting_lines_prefix(text, room.half());
    const std::string_view rest = text.substr(head);
    const std::size_t tail = fitting_lines_suffix(rest, room.half());
    const std::size_t left = rest.size() - tail;
    const auto lines = std::ranges::count(rest.substr(0, left), '\n');
    const std::string cursor = std::to_string(begin + static_cast<std::int64_t>(head));
    out["stdout"] = readable(text.substr(0, head))
                        .append(gap_note(left, static_cast<std::uint64_t>(lines), output_advice(id, cursor)))
                        .append(readable(rest.substr(left)));
    out["truncated"] = true;
  }
  if (logs.skipped_bytes > 0) out["lost_bytes"] = logs.skipped_bytes;
  out["next_cursor"] = std::to_string(next);
  return out;
}

net::awaitable<opensandbox::Result<void>> take_page(PlainPage& page, std::uint64_t& lost,
                                                    std::span<const opensandbox::ExecutionEvent> events) {
  using Type = opensandbox::ExecutionEvent::Type;
  for (const auto& event : events) {
    if (event.type == Type::Gap) {
      lost += event.gap_to - event.gap_from + 1;
      page.begin_with_whole_line();
    }
    if (event.type != Type::Stdout && event.type != Type::Stderr) continue;
    const std::string_view line = event.text == "\n" ? std::string_view() : event.text;
    if (!page.take(line, event.type == Type::Stderr, event.seq)) co_return page_is_full();
  }
  co_return opensandbox::Result<void>();
}

net::awaitable<ToolResult> foreground_page(Call& call, sdk::Sandbox sandbox, std::string id, OutputPosition from) {
  PlainPage page(output_room(call), from);
  std::uint64_t lost = 0;
  auto sink = [&](std::span<const opensandbox::ExecutionEvent> events) { return take_page(page, lost, events); };
  auto followed = co_await sandbox.commands().follow(id, from.seq, {.discard_output = true}, std::move(sink));
  if (!followed && !page.full()) co_return tool_failure(followed.error());
  json::object out;
  if (followed && followed->exit_code) out["exit_code"] = *followed->exit_code;
  if (followed && followed->error) add_reason(out, followed->error->reason, followed->error->reason_message);
  page.encode_into(out);
  if (lost > 0) out["lost_events"] = lost;
  if (page.full()) {
    out["truncated"] = true;
    out["next_cursor"] = cursor_of(page.next());
  }
  co_return out;
}

net::awaitable<ToolResult> foreground_output(Call& call, sdk::Sandbox sandbox, std::string id) {
  const auto output = make_run_output(call);
  auto followed = co_await sandbox.commands().follow(id, 0, {.discard_output = true}, collect_into(*output));
  if (!followed) co_return tool_failure(followed.error());
  co_return output->encode(*followed, [&](const OutputPosition& at) { return continue_command(id, at); });
}

net::awaitable<opensandbox::Result<void>> take_published_page(PublishedOutput& output,
                                                              std::span<const opensandbox::ExecutionEvent> events) {
  for (const auto& event : events) {
    output.take(event);
    if (output.full()) co_return page_is_full();
  }
  co_return opensandbox::Result<void>();
}

net::awaitable<ToolResult> published_page(Call& call, sdk::Sandbox sandbox, std::string id, OutputPosition from) {
  PublishedOutput output(call, from);
  auto sink = [&](std::span<const opensandbox::ExecutionEvent> events) { return take_published_page(output, events); };
  auto followed = co_await sandbox.commands().follow(id, from.seq, {.discard_output = true}, std::move(sink));
  if (!followed && !output.full()) co_return tool_failure(followed.error());
  const bool more = output.full() && output.next().seq > 0;
  json::object out{{"id", id}, {"logs", output.logs()}, {"truncated", output.full()}};
  out["next_cursor"] = more ? json::value(cursor_of(output.next())) : json::value(nullptr);
  out["skipped_events"] = output.skipped();
  co_return out;
}

net::awaitable<ToolResult> command_output(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  const std::string id = call.text("execution_id");
  const std::string cursor = call.text("cursor");
  const auto from = cursor.empty() ? OutputPosition{} : parse_cursor(cursor);
  if (!from) co_return wrong_cursor();
  if (call.published()) co_return co_await published_page(call, *sandbox, id, *from);
  // Asked before the output: when it says that the command has ended, the output is all there is.
  auto status = co_await sandbox->commands().status(id);
  if (!status) co_return tool_failure(status.error());
  auto logs = co_await sandbox->commands().logs(id, static_cast<std::int64_t>(from->seq));
  if (!logs && logs.error().status == 400) {  // not a background command
    co_return cursor.empty() ? co_await foreground_output(call, *sandbox, id)
                             : co_await foreground_page(call, *sandbox, id, *from);
  }
  if (!logs) co_return tool_failure(logs.error());
  json::object out = background_output(call, id, *logs, !cursor.empty());
  encode_state(out, *status);
  if (!status->running && !out.contains("truncated")) out.erase("next_cursor");
  co_return out;
}

}  // namespace

std::vector<Tool> command_tools() {
  const json::object id = sandbox_id_argument();
  const json::object connect = connect_argument();
  const json::object execution = schema::string("id of command_run");
  const json::object one =
      schema::arguments({{"sandbox_id", id}, {"execution_id", execution}, {"connect_if_missing", connect}});
  const json::object time = schema::nullable(schema::string(""));
  const json::object cursor = schema::nullable(schema::string("next_cursor of the last result"));
  return {
      {.name = "command_run",
       .title = "Run a command",
       .description = "Run a shell command and wait for its end. Returns exit_code, stdout, stderr, duration_ms. A "
                      "non-zero exit_code is no error. Of long output begin and end are returned; the note between "
                      "them says how to read the rest. For servers and long jobs set background=true: returns an id "
                      "for command_output and command_interrupt at once.",
       .hints = {.destructive = true},
       .input = schema::arguments({{"sandbox_id", id},
                                   {"command", schema::string("")},
                                   {"background", schema::with_default(schema::boolean(""), false)},
                                   {"working_directory", schema::nullable(schema::string(""))},
                                   {"env", schema::nullable(schema::string_map(""))},
                                   {"timeout_seconds", timeout_argument()},
                                   {"max_output_bytes", max_output_argument()},
                                   {"connect_if_missing", connect}}),
       .output = execution_schema(),
       .run = command_run,
       .ends_itself = true,
       .common = true},
      {.name = "command_output",
       .title = "Output of a command",
       .description = "Read the output of a background command, or the part that command_run left out. Returns stdout "
                      "(of background commands with stderr), running, exit_code. Without a cursor: begin and end. With "
                      "one: the next page.",
       .hints = {.read_only = true},
       .input = schema::arguments({{"sandbox_id", id},
                                   {"execution_id", execution},
                                   {"cursor", cursor},
                                   {"max_output_bytes", max_output_argument()},
                                   {"connect_if_missing", connect}}),
       .output = output_page_schema(execution),
       .run = command_output,
       .common = true},
      {.name = "command_interrupt",
       .title = "Interrupt a command",
       .description = "End a running command and the processes it started.",
       .hints = {.destructive = true},
       .input = one,
       .output = status_schema(),
       .run = command_interrupt,
       .common = true},
      {.name = "command_status",
       .title = "Status of a command",
       .description = "Whether a command still runs, its exit code, and when it began and ended.",
       .hints = {.read_only = true},
       .input = one,
       .output = schema::object({{"id", execution},
                                 {"command", schema::string("")},
                                 {"running", schema::boolean("")},
                                 {"exit_code", schema::nullable(schema::integer(""))},
                                 {"error", schema::nullable(schema::string(""))},
                                 {"started_at", time},
                                 {"finished_at", time}}),
       .run = command_status},
      {.name = "command_logs",
       .title = "Logs of a background command",
       .description = "Follow a command that was started with background=true: each call returns the output since its "
                      "cursor, and the next cursor.",
       .hints = {.read_only = true},
       .input = schema::arguments({{"sandbox_id", id},
                                   {"execution_id", execution},
                                   {"cursor", cursor},
                                   {"max_output_bytes", max_output_argument()},
                                   {"connect_if_missing", connect}}),
       .output = schema::object({{"id", execution},
                                 {"content", schema::string("stdout and stderr as they came.")},
                                 {"cursor", schema::string("For the next call.")},
                                 {"truncated", schema::boolean("There is more now: call again with the cursor.")},
                                 {"skipped_bytes", schema::integer("Bytes that the sandbox no longer has.")},
                                 {"running", schema::boolean("")},
                                 {"exit_code", schema::nullable(schema::integer(""))}}),
       .run = command_logs},
  };
}

}  // namespace osb::mcp::tools
