#include "mcp/schema.h"
#include "mcp/tools/execution.h"

namespace osb::mcp::tools {
namespace {

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
  OutputCollector collector(call, call.integer("max_output_bytes"));
  auto execution =
      co_await sandbox->sessions().run(call.text("session_id"), call.text("command"), options, collect_into(collector));
  if (!execution) co_return tool_failure(execution.error());
  json::object out = collector.encode(*execution);
  out["next_cursor"] = nullptr;  // sessions keep no output
  co_return out;
}

net::awaitable<ToolResult> session_delete(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  auto done = co_await sandbox->sessions().remove(call.text("session_id"));
  if (!done) co_return tool_failure(done.error());
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
       "they "
       "went. stderr comes as stdout. Output beyond max_output_bytes is lost: redirect it to a file.",
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
