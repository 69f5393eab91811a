#include <csignal>
#include <unistd.h>

#include "api/resource_limits.h"
#include "cli/command/captured_run.h"
#include "cli/egress/rule_text.h"
#include "cli/live/background_forwarder.h"
#include "cli/lookup/lookup.h"
#include "cli/more_commands.h"
#include "cli/sandbox/volume_spec.h"
#include "cli/terminal/owned_sandbox.h"
#include "cli/terminal/piped_input.h"
#include "cli/terminal/piped_program.h"
#include "cli/terminal/raw_terminal.h"
#include "cli/terminal/terminal_session.h"

namespace osb::cli {
namespace {

struct RunOptions {
  std::string image;
  RemoteProgram program;
  std::vector<KeyValue> env, metadata, resources, extensions;
  std::vector<std::string> volumes, ports, allow;
  std::string policy;
  std::optional<NullableDuration> timeout;
  std::string user, name, username, password;
  std::string detach_keys = "ctrl-p,ctrl-q";
  bool interactive = false, tty = false, keep = false, detach = false, remove = false, deny_all = false;
};

// The smallest images have this one.
const std::vector<std::string> kSleep = {"sleep", "2147483647"};

// --allow and --deny-all both close the network; --allow opens it again for some hosts.
Expected<std::optional<opensandbox::NetworkPolicy>> network_policy(const RunOptions& options) {
  if (options.allow.empty() && !options.deny_all) return std::nullopt;
  opensandbox::NetworkPolicy out;
  out.default_action = "deny";
  for (const std::string& text : options.allow) {
    auto rule = parse_target("--allow", "allow", text);
    if (!rule) return std::unexpected(rule.error());
    out.egress.push_back(std::move(*rule));
  }
  return out;
}

Expected<opensandbox::CreateOptions> create_options(const CommandIo& context, const RunOptions& options) {
  opensandbox::CreateOptions out;
  out.image = options.image;
  out.entrypoint = kSleep;
  if (!options.username.empty()) out.image_auth = {options.username, options.password};
  if (options.timeout) out.timeout = options.timeout->value;
  const auto fill = [](opensandbox::StringMap& into, const std::vector<KeyValue>& from) {
    for (const auto& [key, value] : from) into[key] = value;
  };
  fill(out.env, options.env);
  fill(out.metadata, options.metadata);
  fill(out.extensions, options.extensions);
  if (!options.policy.empty()) out.extensions["policy.template"] = options.policy;
  auto policy = network_policy(options);
  if (!policy) return std::unexpected(policy.error());
  out.network_policy = std::move(*policy);
  if (!options.name.empty()) claim_name(out, options.name);
  if (!options.resources.empty()) out.resource_limits.clear();
  fill(out.resource_limits, options.resources);
  auto volumes = parse_volumes(options.volumes, context.environment()("HOME").value_or("/"));
  if (!volumes) return std::unexpected(volumes.error());
  out.volumes = std::move(*volumes);
  return out;
}

void say_kept(CommandIo& context, const std::string& id) {
  context.out().error_text("Sandbox " + id + " is kept until its deadline. Remove it with: osb rm " + id + "\n");
}

Outcome run_in_terminal(CommandIo& context, const RunOptions& options, DetachKeys keys, OwnedSandbox& owned,
                        SignalFd& signals) {
  const opensandbox::Sandbox& sandbox = owned.sandbox();
  const opensandbox::Ptys ptys = sandbox.ptys();
  auto pty = ptys.create(terminal_options(options.program, context.environment()("TERM").value_or("")));
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
                               "\nRemove it with: osb rm " + sandbox.id() + "\n");
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

// The command as the sandbox's entrypoint, in the directory that was asked for.
std::vector<std::string> entrypoint_of(const RemoteProgram& program) {
  if (program.argv.empty()) return kSleep;
  if (program.cwd.empty()) return program.argv;
  std::vector<std::string> out = {"sh", "-c", R"(cd "$1" && shift && exec "$@")", "sh", program.cwd};
  out.insert(out.end(), program.argv.begin(), program.argv.end());
  return out;
}

Outcome run_detached(CommandIo& context, const RunOptions& options, opensandbox::CreateOptions wanted,
                     SignalFd& signals) {
  wanted.entrypoint = entrypoint_of(options.program);
  if (!options.timeout) wanted.timeout = std::nullopt;  // until it is removed
  auto owned = OwnedSandbox::create(context, std::move(wanted), false, signals);
  if (!owned) return failed(owned.error());
  (*owned)->keep();
  const std::string& id = (*owned)->sandbox().id();
  if (context.out().structured()) {
    context.out().data(json::object{{"id", id},
                                    {"name", options.name.empty() ? json::value() : json::value(options.name)},
                                    {"image", options.image}});
  } else {
    context.out().text(id + "\n");
  }
  return 0;
}

// Options that contradict each other.
Expected<void> check(const RunOptions& options, bool structured) {
  const std::string called = options.name.empty() ? "ID" : options.name;
  if (options.detach) {
    if (options.interactive || options.tty) {
      return usage_error("-d does not go with -i and -t.",
                         "Start it with -d alone, then open a terminal in it with: osb exec -it " + called + " sh");
    }
    if (!options.ports.empty()) {
      return usage_error("-p forwards as long as osb runs, so it does not go with -d.",
                         "Leave -p away, then forward with: osb port-forward " + called + " " + options.ports.front());
    }
    if (!options.user.empty()) {
      return usage_error(
          "-d starts the command as the image's user, so -u does not go with it.",
          "Start it without a command, then: osb exec -d -u " + options.user + " " + called + " COMMAND");
    }
    if (options.keep || options.remove) return usage_error("-d keeps the sandbox: leave --rm and --keep away.");
    return {};
  }
  if (options.keep && options.remove) return usage_error("--keep and --rm contradict each other.");
  if (structured && (options.tty || options.interactive)) {
    return usage_error("-o json and -o yaml do not go with -i and -t.");
  }
  if (options.program.argv.empty() && !options.tty) {
    return usage_error("There is no command.", "Write one, as in: osb run " + options.image +
                                                   " echo hello; use -it for a shell, -d to let it run.");
  }
  return {};
}

Outcome run(CommandIo& context, RunOptions& options) {
  const bool structured = context.out().structured();
  if (options.program.argv.empty() && options.interactive && !options.tty) options.program.argv = {"sh"};
  if (auto fine = check(options, structured); !fine) return failed(fine.error());
  if (options.username.empty() != options.password.empty()) {
    return invalid("--image-auth-username and --image-auth-password go together.");
  }
  if (options.tty) {
    if (auto ok = RawTerminal::check(); !ok) return failed(ok.error(), "Leave -t away to run a command without one.");
  }
  auto keys = DetachKeys::parse(options.detach_keys);
  if (!keys) return usage_error(keys.error().message);
  auto user = parse_user(options.user);
  if (!user) return failed(user.error());
  options.program.user = std::move(*user);
  const auto ports = parse_forward_specs(options.ports);
  if (!ports) return usage_error("Invalid value for '-p': " + ports.error().message + ".");
  auto wanted = create_options(context, options);
  if (!wanted) return failed(wanted.error());
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves must not keep us from cleaning up
  SignalFd signals = terminal_signals();
  if (!options.name.empty()) {
    auto manager = context.manager();
    if (!manager) return failed(manager.error());
    if (auto free = check_free_name(context, *manager, options.name); !free) return failed(free.error());
  }
  if (options.detach) return run_detached(context, options, std::move(*wanted), signals);
  auto owned = OwnedSandbox::create(context, std::move(*wanted), !options.timeout, signals);
  if (!owned) return failed(owned.error());
  if (options.keep) (*owned)->keep();
  const opensandbox::Sandbox& sandbox = (*owned)->sandbox();
  auto forwarder = BackgroundForwarder::start(context, sandbox, *ports);
  if (!forwarder) return failed(forwarder.error());
  const Outcome outcome =
      options.tty  ? run_in_terminal(context, options, *keys, **owned, signals)
      : structured ? run_captured(context, sandbox, options.program)
                   : run_piped(context, sandbox, options.program, passes_input(options.interactive), signals);
  if (options.keep) say_kept(context, sandbox.id());
  return outcome;
}

}  // namespace

void add_run_command(Command& root, CommandIo& context) {
  Command& command = root.command("run", "Run a command in a sandbox of its own, which is removed afterwards.");
  command.details(
      "osb run IMAGE COMMAND [ARGUMENT..]: standard output and error come apart and byte for byte, the exit code is "
      "the "
      "command's. A pipe or file on standard input is the command's too: tar c . | osb run IMAGE tar x; a terminal "
      "only "
      "with -i. osb run -it IMAGE [COMMAND]: the same in an interactive terminal, see 'osb shell'. osb run -d IMAGE "
      "[COMMAND]: the sandbox stays until it is removed; its id is printed. Without --timeout a sandbox that is not "
      "detached lives as long as the command; if osb is killed it ends at most ten minutes later.");
  RunOptions& options = command.values<RunOptions>();
  command.argument("IMAGE", options.image).completes(Completes::Images);
  command.argument("COMMAND", options.program.argv, "The command to run; -- may stand before it.").optional();
  command.ends_with_command_line();
  command.flag("-i,--interactive", "Pass standard input on even if it is a terminal.", options.interactive);
  command.flag("-t,--tty", "In an interactive terminal; usually written -it.", options.tty);
  command.flag("-d,--detach", "Print the sandbox's id and leave it running.", options.detach);
  command.option("--name", "NAME", "A name for the sandbox.", options.name);
  command.option("-e,--env", "KEY=VALUE", "Environment variable; repeatable.", options.env);
  command.option("-v,--volume", "HOST:PATH[:ro]", "Directory of the host, or VOLUME:PATH; repeatable.", options.volumes)
      .completes(Completes::Files);
  command.option("-p,--publish", "LOCAL:PORT", "Forward a local port while the command runs; repeatable.",
                 options.ports);
  command.option("--allow", "HOST", "Reach this host only: a name, *.name, address or network; repeatable.",
                 options.allow);
  command.flag("--deny-all", "No network, but for --allow.", options.deny_all);
  command.option("--policy", "NAME", "Network policy template of the server.", options.policy)
      .completes(Completes::Policies);
  command.option("-u,--user", "USER", "User for the command: NAME, UID or UID:GID.", options.user);
  command.option("-w,--workdir", "PATH", "Directory to start in.", options.program.cwd);
  command.option("-m,--metadata", "KEY=VALUE", "Metadata of the sandbox; repeatable.", options.metadata);
  command.option("--resource", "KEY=VALUE",
                 "Limit, as in memory=512Mi; repeatable. Names: " + api::resource_limit_names() + ".",
                 options.resources);
  command.option("--extension", "KEY=VALUE", "Extension of the create request; repeatable.", options.extensions);
  command.option("--timeout", "DURATION", "End the sandbox after so long, in any case; or none.", options.timeout);
  command.flag("--keep", "Do not remove the sandbox.", options.keep);
  command.flag("--rm", "Remove the sandbox afterwards; the default.", options.remove);
  command.option("--image-auth-username", "TEXT", "For a private registry.", options.username);
  command.option("--image-auth-password", "TEXT", "For a private registry.", options.password);
  command.option("--detach-keys", "KEYS", "As in ctrl-p,ctrl-q (the default), or none.", options.detach_keys);
  command.formats({Format::Raw, Format::Json, Format::Yaml});
  command.action([&context, &options] { return run(context, options); });
}

}  // namespace osb::cli
