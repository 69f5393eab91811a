#include "cli/terminal/shell.h"

#include "cli/more_commands.h"
#include "cli/output/spinner.h"
#include "cli/terminal/raw_terminal.h"
#include "cli/terminal/terminal_session.h"

namespace osb::cli {
namespace {

Outcome after_shell(CommandIo& context, const ShellOptions& options, const opensandbox::Ptys& ptys,
                    const std::string& pty, const TerminalEnd& end) {
  const std::string again = "osb shell " + options.id + " --attach " + pty;
  switch (end.kind) {
    case TerminalEnd::Kind::Exited:
      (void)ptys.remove(pty);
      return end.exit_code;
    case TerminalEnd::Kind::Detached:
      context.out().error_text("\nDetached; the program keeps running. Come back with: " + again + "\n");
      return 0;
    case TerminalEnd::Kind::Signalled:
      // As a closed terminal ends a local shell.
      (void)ptys.remove(pty);
      return exit_code_of_signal(end.signal);
    case TerminalEnd::Kind::TakenOver:
      return failed(Problem{"", "TAKEN_OVER", "Another client has taken over this terminal.",
                            "Take it back with: " + again + " --takeover"});
    case TerminalEnd::Kind::Lost:
      return failed(Problem{"", "CONNECTION_LOST", "The terminal was lost: " + end.message,
                            "If the sandbox is still there, come back with: " + again});
  }
  return 1;
}

}  // namespace

Outcome run_shell(CommandIo& context, ShellOptions& options) {
  if (auto ok = RawTerminal::check(); !ok) {
    return failed(ok.error(), "Without a terminal use: osb command run " + options.id + " -- COMMAND");
  }
  if (!options.attach.empty() && (!options.program.argv.empty() || !options.program.cwd.empty())) {
    return usage_error("--attach takes a terminal as it is: no command and no --workdir with it.");
  }
  auto keys = DetachKeys::parse(options.detach_keys);
  if (!keys) return usage_error(keys.error().message);
  SignalFd signals = terminal_signals();
  auto sandbox = context.sandbox(options.id);
  if (!sandbox) return failed(sandbox.error());
  const opensandbox::Ptys ptys = sandbox->ptys();
  std::string pty = options.attach;
  if (pty.empty()) {
    const Spinner spinner(context.out(), "Opening a terminal");
    const std::string term = context.environment()("TERM").value_or("");
    auto made = ptys.create(terminal_options(options.program, term));
    if (!made) return sdk_failed(context, made.error());
    pty = *made;
  } else {
    // Without this a terminal whose shell has ended would get a new one.
    auto status = ptys.status(pty);
    if (!status) {
      Problem problem = sdk_failed(context, status.error()).error();
      if (status.error().not_found())
        problem.hint = "It has ended, or was never there. A new one: osb shell " + options.id;
      return failed(std::move(problem));
    }
    if (!status->running) {
      (void)ptys.remove(pty);
      return failed(Problem{"", "TERMINAL_ENDED", "The program in this terminal has ended.",
                            "A new one: osb shell " + options.id});
    }
  }
  auto end = run_terminal(context, ptys, pty, {.detach = *keys, .takeover = options.takeover}, signals);
  if (!end) {
    if (options.attach.empty()) (void)ptys.remove(pty);
    if (end.error().code == "ALREADY_CONNECTED") {
      Problem problem = end.error();
      problem.hint = "Add --takeover to take it from the client that is attached.";
      return failed(std::move(problem));
    }
    return failed(end.error());
  }
  return after_shell(context, options, ptys, pty, *end);
}

void add_shell_command(Command& root, CommandIo& context) {
  Command& command = root.command("shell", "Open an interactive terminal in a sandbox.");
  command.details(
      "Keys go to the sandbox as they are, Ctrl-C too. Ctrl-P Ctrl-Q leaves the terminal running and says how to come "
      "back; a lost connection is made again by itself. Closing your terminal ends the shell. The exit code is that of "
      "the shell or command.");
  ShellOptions& options = command.values<ShellOptions>();
  command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
  command.argument("COMMAND", options.program.argv, "The program to run instead of a shell, behind --.").optional();
  command.option("--attach", "PTY", "Come back to a terminal that was left.", options.attach);
  command.flag("--takeover", "With --attach: take it from the attached client.", options.takeover);
  command.option("-w,--workdir", "PATH", "Directory to start in.", options.program.cwd);
  command.option("--detach-keys", "KEYS", "As in ctrl-p,ctrl-q (the default), or none.", options.detach_keys);
  command.formats({Format::Raw});
  command.action([&context, &options] { return run_shell(context, options); });
}

}  // namespace osb::cli
