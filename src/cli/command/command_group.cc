#include <csignal>

#include "cli/command/captured_run.h"
#include "cli/command/remote_run.h"
#include "cli/command/shell_words.h"
#include "cli/commands.h"
#include "cli/encode.h"
#include "cli/terminal/piped_input.h"
#include "cli/terminal/piped_program.h"

namespace osb::cli {
namespace {

const std::vector<Format> kFormats = {Format::Table, Format::Json, Format::Yaml};
const std::vector<Format> kAllFormats = {Format::Table, Format::Json, Format::Yaml, Format::Raw};

struct RunOptions {
  std::string id;
  std::vector<std::string> words;
  bool background = false, argv = false, exact = false, interactive = false;
  std::string workdir;
  Duration timeout;
};

Outcome run_in_background(CommandIo& context, RunOptions& options, opensandbox::RunOptions wanted) {
  auto sandbox = context.sandbox(options.id);
  if (!sandbox) return failed(sandbox.error());
  wanted.background = true;
  const auto commands = sandbox->commands();
  auto run =
      options.argv ? commands.run_program(options.words, wanted) : commands.run(shell_join(options.words), wanted);
  if (!run) return sdk_failed(context, run.error());
  if (run->error) {
    return failed(Problem{"Execution Error", "EXECUTION_ERROR", run->error->name + ": " + run->error->value});
  }
  context.out().panel("Background Command Started",
                      {{"execution_id", run->id}, {"sandbox_id", options.id}, {"mode", "background"}});
  return 0;
}

Outcome run_in_foreground(CommandIo& context, RunOptions& options, opensandbox::RunOptions wanted) {
  RemoteRun remote(context);
  auto sandbox = context.sandbox(options.id);
  if (!sandbox) return failed(sandbox.error());
  wanted.discard_output = true;
  const auto commands = sandbox->commands();
  const auto handlers = remote.handlers(commands);
  return remote.finish(options.argv ? commands.run_program(options.words, wanted, handlers)
                                    : commands.run(shell_join(options.words), wanted, handlers));
}

// Not through events, which are lines of text, but through a pipe.
Outcome run_exactly(CommandIo& context, RunOptions& options) {
  SignalFd signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT});
  auto sandbox = context.sandbox(options.id);
  if (!sandbox) return failed(sandbox.error());
  return run_piped(context, *sandbox, {.argv = options.words, .cwd = options.workdir},
                   options.interactive && passes_input(true), signals);
}

Outcome run_for_document(CommandIo& context, RunOptions& options) {
  if (options.exact) return invalid("--exact and --interactive do not go with -o json and -o yaml.");
  auto sandbox = context.sandbox(options.id);
  if (!sandbox) return failed(sandbox.error());
  return run_captured(context, *sandbox, {.argv = options.words, .cwd = options.workdir}, options.timeout.value);
}

void add_run(Command& group, CommandIo& context) {
  Command& command = group.command("run", "Run a command in a sandbox.");
  command.details(
      "Write -- before the command. Its words reach it as they are; for shell syntax run a shell: -- sh -c 'a | b'. "
      "Output goes to stdout and stderr, the command's exit code becomes osb's. -o json prints one document at the end "
      "instead: stdout, stderr, exit_code, reason, reason_message, duration.");
  RunOptions& o = command.values<RunOptions>();
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  command.argument("COMMAND", o.words);
  command.flag("-d,--background", "Do not wait for its end; see status and logs.", o.background);
  command.option("-w,--workdir", "TEXT", "Working directory.", o.workdir);
  command.option("-t,--timeout", "DURATION", "Kill it after so long.", o.timeout);
  command.flag("--argv", "Without a shell: the words are the program and its arguments.", o.argv);
  command.flag("-i,--interactive", "Pass standard input on, byte for byte and with its end; implies --exact.",
               o.interactive);
  command.flag("--exact", "Output byte for byte; otherwise it is text, and every line gets an end.", o.exact);
  command.formats(kAllFormats, Format::Raw);
  command.action([&context, &command, &o]() -> Outcome {
    const Format format = command.format();
    const auto refuse = [&](std::string_view allowed) {
      return invalid("This command does not support `-o " + std::string(format_name(format)) +
                     "`. Allowed values: " + std::string(allowed) + ".");
    };
    opensandbox::RunOptions wanted;
    wanted.cwd = o.workdir;
    wanted.timeout = o.timeout.value;
    const std::string pipe = o.interactive ? "--interactive" : "--exact";
    if (o.interactive) o.exact = true;
    if (o.background) {
      if (o.exact) return invalid(pipe + " and --background do not go together.");
      if (command.format_given() && format == Format::Raw) return refuse("table, json, yaml");
      if (!command.format_given()) context.set_output(Format::Table);
      return run_in_background(context, o, std::move(wanted));
    }
    if (command.format_given() && format == Format::Table) return refuse("raw, json, yaml");
    if (o.exact && o.timeout.value.count() > 0) return invalid(pipe + " and --timeout do not go together.");
    if (context.out().structured()) return run_for_document(context, o);
    if (o.exact) return run_exactly(context, o);
    return run_in_foreground(context, o, std::move(wanted));
  });
}

struct OneExecution {
  std::string id, execution;
};

Command& execution_command(Command& group, std::string name, std::string summary, OneExecution& options) {
  Command& command = group.command(std::move(name), std::move(summary));
  command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
  command.argument("EXECUTION_ID", options.execution);
  return command;
}

void add_status(Command& group, CommandIo& context) {
  OneExecution& o = group.values<OneExecution>();
  Command& command = execution_command(group, "status", "Show how a command is doing.", o);
  command.formats(kFormats);
  command.action([&context, &o]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Fetching...");
    auto status = sandbox->commands().status(o.execution);
    if (!status) return sdk_failed(context, status.error());
    context.out().object(encode(*status), "Command Status");
    return 0;
  });
}

void add_logs(Command& group, CommandIo& context) {
  struct Options : OneExecution {
    std::optional<std::int64_t> cursor;
  };
  Options& o = group.values<Options>();
  Command& command = execution_command(group, "logs", "Show the output of a background command.", o);
  command.option("--cursor", "INTEGER", "Only output after this cursor.", o.cursor);
  command.formats(kAllFormats);
  command.action([&context, &o]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Fetching...");
    auto logs = sandbox->commands().logs(o.execution, o.cursor);
    if (!logs) return sdk_failed(context, logs.error());
    Output& out = context.out();
    if (out.structured()) {
      out.data(json::object{{"content", logs->text}, {"cursor", logs->cursor}});
      return 0;
    }
    if (out.format() == Format::Table) out.text("--- Command Logs ---\n");
    out.text(logs->text);
    if (!logs->text.empty() && logs->text.back() != '\n' && out.format() == Format::Table) out.text("\n");
    return 0;
  });
}

void add_interrupt(Command& group, CommandIo& context) {
  OneExecution& o = group.values<OneExecution>();
  Command& command = execution_command(group, "interrupt", "Interrupt a running command.", o);
  command.formats(kFormats);
  command.action([&context, &o]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Interrupting...");
    if (auto done = sandbox->commands().interrupt(o.execution); !done) return sdk_failed(context, done.error());
    context.out().ok("Interrupted: " + o.execution);
    return 0;
  });
}

struct SessionOptions {
  std::string id, session, workdir;
  std::vector<std::string> words;
  Duration timeout;
};

void add_session_create(Command& group, CommandIo& context) {
  Command& command = group.command("create", "Start a shell that keeps its variables and directory.");
  SessionOptions& o = command.values<SessionOptions>();
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  command.option("-w,--workdir", "TEXT", "Directory to start in.", o.workdir);
  command.formats(kFormats);
  command.action([&context, &o]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Creating session...");
    auto made = sandbox->sessions().create(o.workdir);
    if (!made) return sdk_failed(context, made.error());
    context.out().panel("Session Created",
                        {{"sandbox_id", o.id}, {"session_id", *made}, {"working_directory", text_or_null(o.workdir)}});
    return 0;
  });
}

void add_session_run(Command& group, CommandIo& context) {
  Command& command = group.command("run", "Run a command in a session. Write -- before it.");
  SessionOptions& o = command.values<SessionOptions>();
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  command.argument("SESSION_ID", o.session);
  command.argument("COMMAND", o.words);
  command.option("-w,--workdir", "TEXT", "Working directory of this run.", o.workdir);
  command.option("-t,--timeout", "DURATION", "Kill it after so long.", o.timeout);
  command.formats({Format::Raw});
  command.action([&context, &o]() -> Outcome {
    RemoteRun remote(context);
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    opensandbox::SessionRunOptions wanted;
    wanted.cwd = o.workdir;
    wanted.timeout = o.timeout.value;
    wanted.discard_output = true;
    return remote.finish(
        sandbox->sessions().run(o.session, shell_join(o.words), wanted, remote.handlers(sandbox->commands())));
  });
}

void add_session_delete(Command& group, CommandIo& context) {
  Command& command = group.command("delete", "End a session.");
  SessionOptions& o = command.values<SessionOptions>();
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  command.argument("SESSION_ID", o.session);
  command.formats(kFormats);
  command.action([&context, &o]() -> Outcome {
    auto sandbox = context.sandbox(o.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Deleting session...");
    if (auto done = sandbox->sessions().remove(o.session); !done) return sdk_failed(context, done.error());
    context.out().ok("Deleted session: " + o.session);
    return 0;
  });
}

}  // namespace

void add_command_group(Command& root, CommandIo& context) {
  Command& group = root.command("command", "Run commands in a sandbox.");
  add_run(group, context);
  add_status(group, context);
  add_logs(group, context);
  add_interrupt(group, context);
  Command& session = group.command("session", "Shells that stay between commands.");
  add_session_create(session, context);
  add_session_run(session, context);
  add_session_delete(session, context);
}

}  // namespace osb::cli
