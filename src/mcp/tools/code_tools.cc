#include "mcp/schema.h"
#include "mcp/tools/execution.h"

namespace osb::mcp::tools {
namespace {

constexpr std::string_view kFeature = "A code interpreter";

net::awaitable<ToolResult> code_run(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  opensandbox::RunCodeOptions options;
  options.discard_output = true;
  if (const std::string context = call.text("context_id"); !context.empty()) {
    options.context = opensandbox::CodeContext{context, call.text("language")};
  } else {
    options.language = call.text("language");
  }
  OutputCollector collector(call, call.integer("max_output_bytes"));
  auto execution =
      co_await sandbox->code().run(call.text("code"), options, interruptible(collector, call, *sandbox, Runs::Code));
  if (!execution) co_return unless_offered(execution.error(), kFeature);
  json::object out = collector.encode(*execution);
  out["available"] = true;
  out["next_cursor"] = nullptr;
  co_return out;
}

net::awaitable<ToolResult> code_create_context(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  auto context = co_await sandbox->code().create_context(call.text("language"));
  if (!context) co_return unless_offered(context.error(), kFeature);
  co_return json::object{{"available", true}, {"context_id", context->id}, {"language", context->language}};
}

}  // namespace

std::vector<Tool> code_tools() {
  const json::object id = sandbox_id_argument();
  const json::object connect = connect_argument();
  const json::object text = schema::nullable(schema::string(""));
  const json::object available = schema::boolean("false: this sandbox has no code interpreter; use command_run.");
  const json::object language =
      schema::with_default(schema::one_of({"python", "java", "go", "typescript", "javascript", "bash"}, ""), "python");
  json::object result = execution_schema();
  result.erase("required");  // an unavailable interpreter gives none of it
  return {
      {"code_run",
       "Run code",
       "Run code in an interpreter that keeps its state. Needs a sandbox made from a code interpreter image; elsewhere "
       "use command_run.",
       {.destructive = true},
       schema::arguments({{"sandbox_id", id},
                          {"code", schema::string("")},
                          {"language", language},
                          {"context_id", schema::nullable(schema::string("From code_create_context. Default: the "
                                                                         "language's own context."))},
                          {"max_output_bytes", max_output_argument()},
                          {"connect_if_missing", connect}}),
       schema::with_properties({{"available", available}, {"code", text}, {"message", text}}, std::move(result)),
       code_run,
       true},
      {"code_create_context",
       "New code context",
       "Make an interpreter with a state of its own, for code_run.",
       {},
       schema::arguments({{"sandbox_id", id}, {"language", language}, {"connect_if_missing", connect}}),
       schema::object(
           {{"available", available}, {"code", text}, {"message", text}, {"context_id", text}, {"language", text}}),
       code_create_context},
  };
}

}  // namespace osb::mcp::tools
