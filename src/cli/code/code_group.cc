#include <filesystem>
#include <opensandbox/code.h>
#include <unistd.h>

#include "cli/code/code_commands.h"
#include "cli/code/code_run.h"
#include "cli/more_commands.h"
#include "cli/read_input.h"

namespace osb::cli {
namespace {

struct CodeOptions {
  std::string id, file, code, language, context, pictures, workdir;
  std::vector<KeyValue> env;
  Duration timeout;
};

std::string language_of(const CodeOptions& options) {
  if (!options.language.empty()) return options.language;
  constexpr std::pair<std::string_view, std::string_view> kEndings[] = {
      {".py", "python"},     {".sh", "bash"},        {".bash", "bash"},     {".go", "go"},
      {".java", "java"},     {".jsh", "java"},       {".js", "javascript"}, {".mjs", "javascript"},
      {".ts", "typescript"}, {".mts", "typescript"}, {".cs", "csharp"},     {".csx", "csharp"},
  };
  const std::string ending = std::filesystem::path(options.file).extension().string();
  for (const auto& [known, language] : kEndings) {
    if (ending == known) return std::string(language);
  }
  return "python";
}

Expected<std::string> code_of(const CodeOptions& options) {
  if (!options.code.empty()) {
    if (!options.file.empty()) return usage_error("Give the code with -e or as FILE, not both.");
    return options.code;
  }
  if (options.file.empty() && ::isatty(STDIN_FILENO) == 1) {
    return usage_error("No code.", "Give a FILE, -e CODE, or the code on standard input.");
  }
  return read_input(options.file.empty() ? "-" : options.file, "code");
}

Outcome run_given_code(CommandIo& context, CodeOptions& options) {
  auto text = code_of(options);
  if (!text) return failed(text.error());
  if (text->empty()) return invalid("The code is empty.");
  RemoteRun remote(context, code_output(context));
  auto sandbox = context.sandbox(options.id);
  if (!sandbox) return failed(sandbox.error());
  const auto code = sandbox->code();
  opensandbox::RunCodeOptions wanted;
  if (options.context.empty()) {
    wanted.language = language_of(options);
  } else {
    const auto known = code.context(options.context);
    if (!known) return sdk_failed(context, known.error());
    wanted.context = *known;
  }
  wanted.cwd = options.workdir;
  wanted.timeout = options.timeout.value;
  for (const auto& [name, value] : options.env) wanted.envs.insert_or_assign(name, value);
  Pictures pictures(options.pictures);
  return run_code(context, remote, code, *text, wanted, pictures);
}

void add_run(Command& group, CommandIo& context) {
  Command& command = group.command("run", "Run code in an interpreter that keeps its state.");
  command.details(
      "osb code run SANDBOX analysis.py, osb code run SANDBOX -e '1 + 1', or code on standard input. Variables and "
      "imports stay for the next run. The value of the last expression is printed; a picture is saved and its file "
      "named. Code that fails prints its traceback, and the exit code is 1. The language's interpreter has to be in "
      "the "
      "image.");
  CodeOptions& options = command.values<CodeOptions>();
  command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
  command.argument("FILE", options.file, "The code; - is standard input.").optional().completes(Completes::Files);
  command.option("-e,--code", "CODE", "The code itself.", options.code);
  command.option("-l,--language", "LANGUAGE", "Default: by the file's ending, otherwise python.", options.language)
      .choices(code_languages());
  command.option("-c,--context", "ID", "Of 'osb code context create'. Default: the language's own.", options.context);
  command.option("-w,--workdir", "PATH", "Directory of this run.", options.workdir);
  command.option("--env", "KEY=VALUE", "Variable of this run; repeatable.", options.env);
  command.option("-t,--timeout", "DURATION", "Interrupt the code after so long.", options.timeout);
  command.option("--pictures", "DIR", "Where pictures are saved. Default: a new directory in /tmp.", options.pictures)
      .completes(Completes::Files);
  command.formats({Format::Raw, Format::Json, Format::Yaml});
  command.action([&context, &options] { return run_given_code(context, options); });
}

json::object encode_context(const opensandbox::CodeContext& context) {
  return {{"id", context.id}, {"language", context.language}};
}

struct ContextOptions {
  std::string id, context, language;
};

void add_context_create(Command& group, CommandIo& context) {
  Command& command = group.command("create", "Make an interpreter with a state of its own.");
  ContextOptions& options = command.values<ContextOptions>();
  command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
  command.option("-l,--language", "LANGUAGE", "Default: python.", options.language).choices(code_languages());
  command.formats({Format::Table, Format::Json, Format::Yaml});
  command.action([&context, &options]() -> Outcome {
    auto sandbox = context.sandbox(options.id);
    if (!sandbox) return failed(sandbox.error());
    const auto made = sandbox->code().create_context(options.language.empty() ? "python" : options.language);
    if (!made) return sdk_failed(context, made.error());
    context.out().panel("Code Context Created", encode_context(*made));
    return 0;
  });
}

void add_context_list(Command& group, CommandIo& context) {
  Command& command = group.command("list", "List the interpreters of a sandbox.");
  ContextOptions& options = command.values<ContextOptions>();
  command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
  command.option("-l,--language", "LANGUAGE", "Only this language.", options.language).choices(code_languages());
  command.formats({Format::Table, Format::Json, Format::Yaml});
  command.action([&context, &options]() -> Outcome {
    auto sandbox = context.sandbox(options.id);
    if (!sandbox) return failed(sandbox.error());
    const auto found = sandbox->code().contexts(options.language);
    if (!found) return sdk_failed(context, found.error());
    json::array rows;
    for (const auto& each : *found) rows.push_back(encode_context(each));
    if (rows.empty() && !context.out().structured()) return context.out().info("No code contexts found."), 0;
    context.out().rows(rows, {"id", "language"}, "Code Contexts");
    return 0;
  });
}

void add_context_remove(Command& group, CommandIo& context) {
  Command& command = group.command("rm", "End an interpreter; its state is gone.");
  ContextOptions& options = command.values<ContextOptions>();
  command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
  command.argument("CONTEXT_ID", options.context);
  command.formats({Format::Table, Format::Json, Format::Yaml});
  command.action([&context, &options]() -> Outcome {
    auto sandbox = context.sandbox(options.id);
    if (!sandbox) return failed(sandbox.error());
    if (const auto gone = sandbox->code().remove_context(options.context); !gone)
      return sdk_failed(context, gone.error());
    context.out().ok("Code context ended: " + options.context);
    return 0;
  });
}

}  // namespace

const std::vector<std::string>& code_languages() {
  static const std::vector<std::string> known = {"python", "bash", "go", "java", "javascript", "typescript", "csharp"};
  return known;
}

void add_code_group(Command& root, CommandIo& context) {
  Command& group = root.command("code", "Run code in interpreters that keep their state.");
  add_run(group, context);
  add_code_repl(group, context);
  Command& contexts = group.command("context", "Interpreters beside the one that each language has.");
  add_context_create(contexts, context);
  add_context_list(contexts, context);
  add_context_remove(contexts, context);
}

}  // namespace osb::cli
