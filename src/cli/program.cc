#include "cli/program.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "cli/completion/scripts.h"
#include "cli/terminal/signal_fd.h"

namespace osb::cli {
namespace {

constexpr std::string_view kBanner = R"(
   ___                   ___                 _ _
  / _ \ _ __  ___ _ _   / __| __ _ _ _  __| | |__  _____ __
 | (_) | '_ \/ -_) ' \  \__ \/ _` | ' \/ _` | '_ \/ _ \ \ /
  \___/| .__/\___|_||_| |___/\__,_|_||_\__,_|_.__/\___/_\_\
       |_|                                        v)" OSB_VERSION "\n\n";

void add_root_options(Command& root, Flags& flags) {
  root.option("--api-key", "TEXT", "API key; also OPEN_SANDBOX_API_KEY.", flags.api_key);
  root.option("--domain", "TEXT", "Server, host[:port] or a URL; also OPEN_SANDBOX_DOMAIN.", flags.domain);
  root.option("--protocol", "TEXT", "Protocol when the domain names none.", flags.protocol).choices({"http", "https"});
  root.option("--request-timeout", "INTEGER", "Seconds that one request may take.", flags.request_timeout)
      .range(1, 86400);
  root.toggle("use-server-proxy", "Reach sandboxes through the server.", flags.use_server_proxy);
  root.option("--config", "PATH", "Config file (default: ~/.opensandbox/config.toml).", flags.config)
      .completes(Completes::Files);
  root.option("--profile", "NAME", "Table [profiles.NAME] of the config file; also OPEN_SANDBOX_PROFILE.",
              flags.profile);
  root.flag("-v,--verbose", "Log requests to stderr.", flags.verbose);
  root.flag("--no-color", "Plain output.", flags.no_color);
  root.flag("--version", "Show the version and exit.", flags.version);
}

// The format that errors are written in when the command line itself is wrong.
Format wanted_format(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string_view word = words[i];
    std::string_view value;
    if ((word == "-o" || word == "--output") && i + 1 < words.size()) value = words[i + 1];
    if (word.starts_with("--output=")) value = word.substr(9);
    if (word.starts_with("-o") && word.size() > 2) value = word.substr(2);
    if (const auto format = parse_format(value)) return *format;
  }
  return Format::Table;
}

int report(CommandIo& context, const Problem& problem) {
  context.out().problem(problem);
  return problem.exit_code;
}

// Output that could not be written is a failure: the error names a full disk; a reader that left (head) is SIGPIPE.
int finish(CommandIo& context, int status) {
  context.out().flush();
  const int error = context.out().write_error();
  if (error == 0 || status != 0) return status;
  if (error == EPIPE) return exit_code_of_signal(SIGPIPE);
  return report(context, {"", "LOCAL_ERROR", std::string("The output could not be written: ") + std::strerror(error)});
}

// The hook of the original: with _OSB_COMPLETE=bash_source (_OPENSANDBOX_COMPLETE) the program prints its script.
std::string_view asked_for_script(const Environment& environment) {
  for (const char* name : {"_OSB_COMPLETE", "_OPENSANDBOX_COMPLETE"}) {
    const std::string value = environment(name).value_or("");
    if (value.ends_with("_source")) return completion_script(std::string_view(value).substr(0, value.size() - 7));
  }
  return {};
}

}  // namespace

int run_program(const std::vector<std::string>& words, const Environment& environment) {
  CommandIo context(environment);
  if (const std::string_view script = asked_for_script(environment); !script.empty()) {
    std::fwrite(script.data(), 1, script.size(), stdout);
    return std::fflush(stdout) == 0 ? 0 : 1;
  }
  Command root("osb", "OpenSandbox: create and use sandboxes from the terminal.");
  add_root_options(root, context.flags);
  add_commands(root, context);
  auto parsed = root.parse(words);
  context.set_output(wanted_format(words));
  if (context.flags.version) {
    context.out().text("opensandbox, version " OSB_VERSION "\n");
    return finish(context, 0);
  }
  if (!parsed) return report(context, parsed.error());
  Command& command = *parsed->command;
  if (parsed->help) {
    if (&command == &root) context.out().text(kBanner);
    context.out().text(command.help_text());
    return finish(context, 0);
  }
  context.set_output(command.format());
  if (command.needs_config()) {
    if (auto loaded = context.load_config(); !loaded) return report(context, loaded.error());
    context.set_output(command.format());
  }
  const Outcome outcome = command.run();
  if (!outcome) return report(context, outcome.error());
  return finish(context, *outcome);
}

}  // namespace osb::cli
