#include <unistd.h>

#include "cli/code/code_commands.h"
#include "cli/code/code_run.h"
#include "cli/code/input_block.h"
#include "cli/code/line_editor.h"

namespace osb::cli {
namespace {

struct ReplOptions {
  std::string id, language, context, pictures;
};

// An interpreter that was made for this command and ends with it.
class OwnInterpreter {
 public:
  OwnInterpreter(opensandbox::CodeInterpreter code, std::string id) : code_(std::move(code)), id_(std::move(id)) {}
  ~OwnInterpreter() { (void)code_.remove_context(id_); }
  OwnInterpreter(const OwnInterpreter&) = delete;
  OwnInterpreter& operator=(const OwnInterpreter&) = delete;

 private:
  opensandbox::CodeInterpreter code_;
  std::string id_;
};

// Ends with Ctrl-D, or when the sandbox does not answer. Code that fails does not end it.
Outcome converse(CommandIo& context, const opensandbox::CodeInterpreter& code, const opensandbox::CodeContext& where,
                 Pictures& pictures) {
  opensandbox::RunCodeOptions wanted;
  wanted.context = where;
  LineEditor editor;
  InputBlock block(where.language);
  for (std::string line;;) {
    const auto event = editor.read(block.empty() ? ">>> " : "... ", line);
    if (event == LineEditor::Event::End) return 0;
    if (event == LineEditor::Event::Interrupted) {
      block.clear();
      continue;
    }
    if (block.empty() && line.find_first_not_of(" \t") == std::string::npos) continue;
    if (!line.empty()) editor.remember(line);
    if (!block.add(line)) continue;
    RemoteRun remote(context);
    if (auto ran = run_code(context, remote, code, block.text(), wanted, pictures); !ran) return ran;
    block.clear();
  }
}

Outcome repl(CommandIo& context, ReplOptions& options) {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1) {
    return usage_error("osb code repl needs a terminal.", "Use 'osb code run' for code from a file or a pipe.");
  }
  auto sandbox = context.sandbox(options.id);
  if (!sandbox) return failed(sandbox.error());
  const auto code = sandbox->code();
  auto where = options.context.empty() ? code.create_context(options.language.empty() ? "python" : options.language)
                                       : code.context(options.context);
  if (!where) return sdk_failed(context, where.error());
  std::optional<OwnInterpreter> own;
  if (options.context.empty()) own.emplace(code, where->id);
  context.out().error_text(where->language + " in " + options.id +
                           ". Ctrl-D ends, Ctrl-C interrupts; an empty line ends a block.\n");
  Pictures pictures(options.pictures);
  return converse(context, code, *where, pictures);
}

}  // namespace

void add_code_repl(Command& group, CommandIo& context) {
  Command& command = group.command("repl", "Type code and see its values, line by line.");
  command.details(
      "An interpreter of its own that ends with the command, or with -c one that stays. Lines can be edited; the arrow "
      "keys bring back earlier ones.");
  ReplOptions& options = command.values<ReplOptions>();
  command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
  command.option("-l,--language", "LANGUAGE", "Default: python.", options.language).choices(code_languages());
  command.option("-c,--context", "ID", "Of 'osb code context create'.", options.context);
  command.option("--pictures", "DIR", "Where pictures are saved. Default: a new directory in /tmp.", options.pictures)
      .completes(Completes::Files);
  command.action([&context, &options] { return repl(context, options); });
}

}  // namespace osb::cli
