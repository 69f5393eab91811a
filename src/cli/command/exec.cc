#include <csignal>

#include "cli/command/captured_run.h"
#include "cli/more_commands.h"
#include "cli/terminal/piped_input.h"
#include "cli/terminal/piped_program.h"
#include "cli/terminal/shell.h"

namespace osb::cli {
namespace {

struct ExecOptions {
  ShellOptions shell;
  std::string user;
  std::vector<KeyValue> env;
  bool interactive = false, tty = false, detach = false;
};

// Detached; 'osb logs' shows its output.
Outcome start(CommandIo& context, ExecOptions& options) {
  auto sandbox = context.sandbox(options.shell.id);
  if (!sandbox) return failed(sandbox.error());
  const RemoteProgram& program = options.shell.program;
  opensandbox::RunOptions wanted;
  wanted.background = true;
  wanted.cwd = program.cwd;
  wanted.envs = program.env;
  wanted.user = program.user.name;
  wanted.uid = program.user.uid;
  wanted.gid = program.user.gid;
  const auto run = sandbox->commands().run_program(program.argv, wanted);
  if (!run) return sdk_failed(context, run.error());
  if (run->error) {
    return failed(Problem{"Execution Error", "EXECUTION_ERROR", run->error->name + ": " + run->error->value});
  }
  if (context.out().structured()) {
    context.out().data(json::object{{"execution_id", run->id}, {"sandbox_id", options.shell.id}});
  } else {
    context.out().text(run->id + "\n");
    context.out().error_text("Its output: osb logs " + options.shell.id + " " + run->id + "\n");
  }
  return 0;
}

Outcome exec(CommandIo& context, ExecOptions& options) {
  const bool structured = context.out().structured();
  RemoteProgram& program = options.shell.program;
  auto user = parse_user(options.user);
  if (!user) return failed(user.error());
  program.user = std::move(*user);
  for (const auto& [key, value] : options.env) program.env[key] = value;
  if (options.detach && (options.interactive || options.tty)) return usage_error("-d does not go with -i and -t.");
  if (structured && !options.detach && (options.interactive || options.tty)) {
    return usage_error("-o json and -o yaml do not go with -i and -t.");
  }
  if (options.tty) return run_shell(context, options.shell);
  if (options.detach) return start(context, options);
  std::signal(SIGPIPE, SIG_IGN);
  SignalFd signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT});
  auto sandbox = context.sandbox(options.shell.id);
  if (!sandbox) return failed(sandbox.error());
  if (structured) return run_captured(context, *sandbox, program);
  return run_piped(context, *sandbox, program, options.interactive && passes_input(true), signals);
}

}  // namespace

void add_exec_command(Command& root, CommandIo& context) {
  Command& command = root.command("exec", "Run a command in an existing sandbox.");
  command.details(
      "osb exec NAME COMMAND [ARGUMENT..]: output byte for byte, the exit code is the command's. -i passes standard "
      "input on, -it opens an interactive terminal as 'osb shell' does. -o json prints one document at the end: "
      "stdout, "
      "stderr, exit_code, reason, duration.");
  ExecOptions& options = command.values<ExecOptions>();
  command.argument("SANDBOX_ID", options.shell.id).completes(Completes::Sandboxes);
  command.argument("COMMAND", options.shell.program.argv, "The command to run; -- may stand before it.");
  command.ends_with_command_line();
  command.flag("-i,--interactive", "Pass standard input on.", options.interactive);
  command.flag("-t,--tty", "In an interactive terminal; usually written -it.", options.tty);
  command.flag("-d,--detach", "Do not wait for its end; print its id for 'osb logs'.", options.detach);
  command.option("-e,--env", "KEY=VALUE", "Environment variable; repeatable.", options.env);
  command.option("-u,--user", "USER", "Run as NAME, UID or UID:GID.", options.user);
  command.option("-w,--workdir", "PATH", "Directory to start in.", options.shell.program.cwd);
  command.option("--detach-keys", "KEYS", "As in ctrl-p,ctrl-q (the default), or none.", options.shell.detach_keys);
  command.formats({Format::Raw, Format::Json, Format::Yaml});
  command.action([&context, &options] { return exec(context, options); });
}

}  // namespace osb::cli
