#include <charconv>
#include <span>

#include <fmt/format.h>

#include "mcp/schema.h"
#include "mcp/tools/published_output.h"

namespace osb::mcp::tools {
namespace {

// Where a page of kept output begins: "<run>.<line>", or "<run>.<line>.<bytes into the line>".
struct Cursor {
  std::uint64_t run = 0;
  OutputPosition at;
};

std::string cursor_of(std::uint64_t run, const OutputPosition& at) {
  return at.offset == 0 ? fmt::format("{}.{}", run, at.lines) : fmt::format("{}.{}.{}", run, at.lines, at.offset);
}

std::optional<Cursor> parse_cursor(const std::string& text) {
  Cursor out;
  const char* const end = text.data() + text.size();
  const auto [dot, error] = std::from_chars(text.data(), end, out.run);
  if (error != std::errc() || dot == end || *dot != '.') return std::nullopt;
  const auto [line, wrong] = std::from_chars(dot + 1, end, out.at.lines);
  if (wrong != std::errc()) return std::nullopt;
  if (line == end) return out;
  const auto [last, bad] = std::from_chars(line + 1, end, out.at.offset);
  if (*line != '.' || bad != std::errc() || last != end) return std::nullopt;
  return out;
}

net::awaitable<ToolResult> session_create(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  auto id = co_await sandbox->sessions().create(call.text("working_directory"));
  if (!id) co_return tool_failure(id.error());
  co_return json::object{{"session_id", *id}};
}

net::awaitable<opensandbox::Result<void>> take_and_keep(RunOutput& output, KeptOutput& kept, KeptOutput::Run& run,
                                                        std::span<const opensandbox::ExecutionEvent> events) {
  using Type = opensandbox::ExecutionEvent::Type;
  for (const auto& event : events) {
    output.take(event);
    if (event.type != Type::Stdout && event.type != Type::Stderr) continue;
    kept.add(run, {event.text, event.timestamp, event.type == Type::Stderr});
  }
  co_return opensandbox::Result<void>();
}

// Forgets a run that is not said to be worth keeping, also when it fails or is cancelled.
class KeptRun {
 public:
  KeptRun(KeptOutput& kept, const Call& call)
      : kept_(kept), run_(kept.begin(call.text("sandbox_id"), call.text("session_id"))) {}
  ~KeptRun() { kept_.finish(*run_, keep_); }
  KeptRun(const KeptRun&) = delete;
  KeptRun& operator=(const KeptRun&) = delete;

  KeptOutput::Run& run() { return *run_; }
  void keep() { keep_ = true; }

 private:
  KeptOutput& kept_;
  const std::shared_ptr<KeptOutput::Run> run_;
  bool keep_ = false;
};

// Cancelling this drops the stream, and a sandbox ends a session's command when its client leaves; the session stays.
net::awaitable<ToolResult> session_run(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  opensandbox::SessionRunOptions options;
  options.cwd = call.text("working_directory");
  options.discard_output = true;
  if (!call.argument("timeout_seconds").is_null()) options.timeout = seconds(call.number("timeout_seconds"));
  KeptOutput& kept = call.sandboxes().kept_output();
  KeptRun kept_run(kept, call);
  const auto output = make_run_output(call);
  auto sink = [&](std::span<const opensandbox::ExecutionEvent> events) {
    return take_and_keep(*output, kept, kept_run.run(), events);
  };
  const std::string session = call.text("session_id");
  auto execution = co_await sandbox->sessions().run(session, call.text("command"), options, std::move(sink));
  if (!execution) co_return tool_failure(execution.error());
  json::object out = output->encode(*execution, [&](const OutputPosition& at) {
    kept_run.keep();
    const std::string cursor = cursor_of(kept_run.run().number, at);
    return Continuation{cursor,
                        fmt::format("session_output(session_id=\"{}\", cursor=\"{}\") returns them", session, cursor)};
  });
  if (!call.published()) out.erase("id");  // session_output takes the session's
  co_return out;
}

json::object published_page(Call& call, const KeptOutput::Run& run, const OutputPosition& from) {
  PublishedOutput page(call, from);
  for (std::size_t line = from.lines; line < run.lines.size(); ++line) {
    const KeptOutput::Line& next = run.lines[line];
    if (!page.add(next.text, next.timestamp, next.is_error, 0)) break;
  }
  const bool more = page.next().lines < run.lines.size();
  json::object out{{"id", run.session_id}, {"truncated", more}, {"skipped_events", more ? 0 : run.dropped}};
  out["logs"] = page.logs();
  out["next_cursor"] = more ? json::value(cursor_of(run.number, page.next())) : json::value(nullptr);
  return out;
}

json::object plain_page(const Call& call, const KeptOutput::Run& run, const OutputPosition& from) {
  PlainPage page(output_room(call), from);
  for (std::size_t line = from.lines; line < run.lines.size(); ++line) {
    const KeptOutput::Line& next = run.lines[line];
    if (!page.take(next.text == "\n" ? std::string_view() : next.text, next.is_error, 0)) break;
  }
  json::object out;
  page.encode_into(out);
  if (page.next().lines < run.lines.size()) {
    out["truncated"] = true;
    out["next_cursor"] = cursor_of(run.number, page.next());
  } else if (run.dropped > 0) {
    out["lost_lines"] = run.dropped;
  }
  return out;
}

net::awaitable<ToolResult> session_output(Call& call) {
  const auto from = parse_cursor(call.text("cursor"));
  if (!from) co_return tool_failure("INVALID_ARGUMENT", "cursor: expected the next_cursor of an earlier result");
  const auto run = call.sandboxes().kept_output().find(from->run);
  if (!run || run->sandbox_id != call.text("sandbox_id") || run->session_id != call.text("session_id") ||
      from->at.lines > run->lines.size()) {
    co_return tool_failure("OUTPUT_GONE",
                           "this output is not kept any more: a later run printed too much, or the session was "
                           "deleted. Run the command again with its output in a file and read that with file_read");
  }
  co_return call.published() ? published_page(call, *run, from->at) : plain_page(call, *run, from->at);
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
  const json::object session = schema::string("");
  const json::object directory = schema::nullable(schema::string(""));
  return {
      {.name = "session_create",
       .title = "Open a shell session",
       .description = "Open a shell that keeps variables, functions and directory between session_run calls. Returns "
                      "session_id.",
       .input =
           schema::arguments({{"sandbox_id", id}, {"working_directory", directory}, {"connect_if_missing", connect}}),
       .output = schema::object({{"session_id", session}}),
       .run = session_create,
       .common = true},
      {.name = "session_run",
       .title = "Run in a shell session",
       .description = "Run a command in a shell session and wait for its end. Returns the same as command_run; stderr "
                      "is part of stdout.",
       .hints = {.destructive = true},
       .input = schema::arguments({{"sandbox_id", id},
                                   {"session_id", session},
                                   {"command", schema::string("")},
                                   {"working_directory", directory},
                                   {"timeout_seconds", timeout_argument()},
                                   {"max_output_bytes", max_output_argument()},
                                   {"connect_if_missing", connect}}),
       .output = execution_schema(),
       .run = session_run,
       .common = true},
      {.name = "session_output",
       .title = "More output of a shell session",
       .description = "Read the part of the output that session_run left out (up to 8 MiB of the session's last long "
                      "one).",
       .hints = {.read_only = true},
       .input = schema::arguments({{"sandbox_id", id},
                                   {"session_id", session},
                                   {"cursor", schema::string("next_cursor of the last result")},
                                   {"max_output_bytes", max_output_argument()}}),
       .output = output_page_schema(session),
       .run = session_output,
       .common = true},
      {.name = "session_delete",
       .title = "Close a shell session",
       .description = "Close a shell session and end what runs in it.",
       .hints = {.destructive = true},
       .input = schema::arguments({{"sandbox_id", id}, {"session_id", session}, {"connect_if_missing", connect}}),
       .output = status_schema(),
       .run = session_delete,
       .common = true},
  };
}

}  // namespace osb::mcp::tools
