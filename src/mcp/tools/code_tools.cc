#include "mcp/schema.h"
#include "mcp/tools/run_output.h"

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
  const auto output = make_run_output(call, Runs::Code);
  auto execution =
      co_await sandbox->code().run(call.text("code"), options, interruptible(*output, call, *sandbox, Runs::Code));
  if (!execution) co_return unless_offered(execution.error(), kFeature);
  // Interpreters do not keep their output.
  json::object out = output->encode(*execution, [](const OutputPosition&) {
    return Continuation{"", "write it to a file and read that with file_read"};
  });
  if (call.published()) out["available"] = true;
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
  const json::object language = schema::with_default(
      schema::one_of({"python", "java", "go", "typescript", "javascript", "bash", "csharp"}, ""), "python");
  json::object result = execution_schema();
  result.erase("required");  // an unavailable interpreter gives none of it
  return {
      {.name = "code_run",
       .title = "Run code",
       .description = "Run code in an interpreter that keeps its state between calls. Returns stdout, stderr, result "
                      "(value of the last expression) and error. Python needs python3 in the image; where a language "
                      "is missing use command_run.",
       .hints = {.destructive = true},
       .input =
           schema::arguments({{"sandbox_id", id},
                              {"code", schema::string("")},
                              {"language", language},
                              {"context_id", schema::nullable(schema::string("Default: the language's own context"))},
                              {"max_output_bytes", max_output_argument()},
                              {"connect_if_missing", connect}}),
       .output =
           schema::with_properties({{"available", available}, {"code", text}, {"message", text}}, std::move(result)),
       .run = code_run,
       .ends_itself = true},
      {.name = "code_create_context",
       .title = "New code context",
       .description = "Make an interpreter with a state of its own. Returns context_id for code_run.",
       .input = schema::arguments({{"sandbox_id", id}, {"language", language}, {"connect_if_missing", connect}}),
       .output = schema::object(
           {{"available", available}, {"code", text}, {"message", text}, {"context_id", text}, {"language", text}}),
       .run = code_create_context},
  };
}

}  // namespace osb::mcp::tools
