#include <csignal>

#include "cli/more_commands.h"
#include "cli/terminal/owned_sandbox.h"
#include "cli/terminal/piped_input.h"
#include "cli/terminal/piped_program.h"
#include "cli/terminal/raw_terminal.h"
#include "cli/terminal/remote_program.h"
#include "cli/terminal/terminal_session.h"

namespace osb::cli {
namespace {

struct RunOptions {
  std::string image;
  std::vector<std::string> program;
  std::vector<KeyValue> env, metadata, resources, extensions;
  std::optional<NullableDuration> timeout;
  std::string workdir, username, password;
  std::string detach_keys = "ctrl-p,ctrl-q";
  bool interactive = false, tty = false, keep = false;
};

opensandbox::CreateOptions create_options(const RunOptions& options) {
  opensandbox::CreateOptions out;
  out.image = options.image;
  out.entrypoint = {"sleep", "2147483647"};  // what the smallest images have
  if (!options.username.empty()) out.image_auth = {options.username, options.password};
  if (options.timeout) out.timeout = options.timeout->value;
  const auto fill = [](opensandbox::StringMap& into, const std::vector<KeyValue>& from) {
    for (const auto& [key, value] : from) into[key] = value;
  };
  fill(out.env, options.env);
  fill(out.metadata, options.metadata);
  fill(out.extensions, options.extensions);
  if (!options.resources.empty()) out.resource_limits.clear();
  fill(out.resource_limits, options.resources);
  return out;
}

void say_kept(Context& context, const std::string& id) {
  context.out().error_text("Sandbox " + id + " is kept until its deadline. Remove it with: osb sandbox kill " + id +
                           "\n");
}

Outcome run_in_terminal(Context& context, const RunOptions& options, DetachKeys keys, OwnedSandbox& owned,
                        SignalFd& signals) {
  const opensandbox::Sandbox& sandbox = owned.sandbox();
  const opensandbox::Ptys ptys = sandbox.ptys();
  const std::string term = context.environment()("TERM").value_or("");
  auto pty = ptys.create({.cwd = options.workdir, .command = terminal_text(options.program, term)});
  if (!pty) return sdk_failed(context, pty.error());
  auto end = run_terminal(context, ptys, *pty, {.detach = std::move(keys), .takeover = false}, signals);
  if (!end) return failed(end.error());
  const std::string again = "osb shell " + sandbox.id() + " --attach " + *pty;
  switch (end->kind) {
    case TerminalEnd::Kind::Exited:
      return end->exit_code;
    case TerminalEnd::Kind::Detached:
      owned.keep();
      context.out().error_text("\nDetached; it goes on until the sandbox's deadline. Come back with: " + again +
                               "\nRemove it with: osb sandbox kill " + sandbox.id() + "\n");
      return 0;
    case TerminalEnd::Kind::Signalled:
      return exit_code_of_signal(end->signal);
    case TerminalEnd::Kind::TakenOver:
      owned.keep();
      return failed(Problem{"", "TAKEN_OVER", "Another client has taken over this terminal; its sandbox is kept.",
                            "Take it back with: " + again + " --takeover"});
    case TerminalEnd::Kind::Lost:
      return failed(Problem{"", "CONNECTION_LOST", "The terminal was lost: " + end->message});
  }
  return 1;
}

Outcome run(Context& context, RunOptions& options) {
  const bool terminal = options.tty;
  if (options.program.empty() && options.interactive && !terminal) options.program = {"sh"};
  if (options.program.empty() && !terminal) {
    return usage_error("There is no command.", "Write one behind --, as in: osb run " + options.image +
                                                   " -- echo hello; or use -it for a shell.");
  }
  if (options.username.empty() != options.password.empty()) {
    return invalid("--image-auth-username and --image-auth-password go together.");
  }
  if (terminal) {
    if (auto ok = RawTerminal::check(); !ok) return failed(ok.error(), "Leave -t away to run a command without one.");
  }
  auto keys = DetachKeys::parse(options.detach_keys);
  if (!keys) return usage_error(keys.error().message);
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves must not keep us from cleaning up
  SignalFd signals = terminal_signals();
  auto owned = OwnedSandbox::create(context, create_options(options), !options.timeout, signals);
  if (!owned) return failed(owned.error());
  const Outcome outcome = terminal ? run_in_terminal(context, options, *keys, **owned, signals)
                                   : run_piped(context, (*owned)->sandbox(), options.program, options.workdir,
                                               passes_input(options.interactive), signals);
  if (options.keep) {
    (*owned)->keep();
    say_kept(context, (*owned)->sandbox().id());
  }
  return outcome;
}

}  // namespace

void add_run_command(Command& root, Context& context) {
  Command& command = root.command("run", "Run a command in a sandbox of its own, which is removed afterwards.");
  command.details(
      "osb run IMAGE -- COMMAND [ARGUMENT..]: standard output and error come apart and byte for byte, the exit code is "
      "the command's. A pipe or file on standard input is the command's too: tar c . | osb run IMAGE -- tar x; a "
      "terminal only with -i. osb run -it IMAGE [-- COMMAND]: the same in an interactive terminal, see 'osb shell'. "
      "Without "
      "--timeout the sandbox lives as long as the command; if osb is killed it ends at most ten minutes later.");
  RunOptions& options = command.values<RunOptions>();
  command.argument("IMAGE", options.image);
  command.argument("COMMAND", options.program, "What to run, behind --.").optional();
  command.flag("-i,--interactive", "Pass standard input on even if it is a terminal.", options.interactive);
  command.flag("-t,--tty", "In an interactive terminal; usually written -it.", options.tty);
  command.option("-e,--env", "KEY=VALUE", "Environment variable; repeatable.", options.env);
  command.option("-m,--metadata", "KEY=VALUE", "Metadata of the sandbox; repeatable.", options.metadata);
  command.option("--resource", "KEY=VALUE", "Limit, as in cpu=2 or memory=512Mi; repeatable.", options.resources);
  command.option("--extension", "KEY=VALUE", "Extension of the create request; repeatable.", options.extensions);
  command.option("-w,--workdir", "PATH", "Directory to start in.", options.workdir);
  command.option("--timeout", "DURATION", "End the sandbox after so long, whatever runs; or none.", options.timeout);
  command.flag("--keep", "Do not remove the sandbox.", options.keep);
  command.option("--image-auth-username", "TEXT", "For a private registry.", options.username);
  command.option("--image-auth-password", "TEXT", "For a private registry.", options.password);
  command.option("--detach-keys", "KEYS", "As in ctrl-p,ctrl-q (the default), or none.", options.detach_keys);
  command.formats({Format::Raw});
  command.action([&context, &options] { return run(context, options); });
}

}  // namespace osb::cli
