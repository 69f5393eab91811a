#include <opensandbox/async.h>
#include <poll.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "async/race.h"
#include "async/run_loop.h"
#include "async/signals.h"
#include "cli/live/log_overlap.h"
#include "cli/more_commands.h"
#include "cli/output/spinner.h"
#include "cli/terminal/signal_fd.h"

namespace osb::cli {
namespace {

using namespace race;

struct LogsOptions {
  std::string id, execution, since;
  bool follow = false, timestamps = false;
  std::int64_t tail = 0;
};

constexpr int kMostLines = 10'000;   // that a server gives at once
constexpr int kBetweenLooks = 1000;  // ms: for servers that cannot tell what an entrypoint writes

std::string_view last_lines(std::string_view text, std::int64_t lines) {
  std::size_t from = text.size();
  if (from > 0 && text.back() == '\n') --from;
  for (std::int64_t i = 0; i < lines; ++i) {
    if (from == 0) return text;
    const std::size_t end = text.rfind('\n', from - 1);
    if (end == std::string_view::npos) return text;
    from = end;
  }
  return text.substr(from + 1);
}

// False: the reader of the output has gone.
bool print(CommandIo& context, std::string_view text) {
  context.out().text(text);
  context.out().flush();
  return context.out().write_error() == 0;
}

// Ctrl-C is how one ends a look at a log.
int exit_code_after(int signal) { return signal == SIGINT ? 0 : exit_code_of_signal(signal); }

bool is_over(const opensandbox::SandboxInfo& info) {
  return info.status.state == opensandbox::state::kTerminated || info.status.state == opensandbox::state::kFailed;
}

// The entrypoint's output from a server that does not tell what comes: looks again and again.
Outcome look_repeatedly(CommandIo& context, const LogsOptions& options) {
  SignalFd signals({SIGINT, SIGTERM, SIGHUP});
  auto manager = context.manager();
  if (!manager) return failed(manager.error());
  auto found = manager->logs(options.id, "container", kMostLines, options.since);
  if (!found) return sdk_failed(context, found.error());
  std::string seen = std::move(found->content);
  bool read = print(context, options.tail > 0 ? last_lines(seen, options.tail) : std::string_view(seen));
  while (options.follow && read) {
    pollfd wait{signals.fd(), POLLIN, 0};
    if (::poll(&wait, 1, kBetweenLooks) > 0) return exit_code_after(signals.take().value_or(SIGINT));
    const auto info = manager->get(options.id);  // before the log, so that the log's last lines are still shown
    auto now = manager->logs(options.id, "container", kMostLines);
    if (now) {
      read = print(context, new_part(seen, now->content));
      seen = std::move(now->content);
    }
    if (!info && info.error().not_found()) return 0;
    if (!now && now.error().not_found()) return 0;
    if (!now) return sdk_failed(context, now.error());
    if (info && is_over(*info)) return 0;
  }
  return 0;
}

// Pieces as they are printed: the bytes of the program, with -t each line's time in front.
std::string text_of(std::span<const opensandbox::LogOutput> pieces, bool times, bool& in_line) {
  std::string out;
  for (const opensandbox::LogOutput& piece : pieces) {
    if (times && !in_line && !piece.time.empty()) out += piece.time + " ";
    out += piece.text;
    in_line = !piece.text.ends_with('\n');
  }
  return out;
}

// The entrypoint's output, told by the server as it comes.
Outcome entrypoint_logs(CommandIo& context, LogsOptions& options) {
  auto manager = context.manager_of_sandbox(options.id);
  if (!manager) return failed(manager.error());
  net::io_context loop(1);
  auto connection = opensandbox::async::Client::open(loop.get_executor(), manager->client().config());
  if (!connection) return sdk_failed(context, connection.error());
  SignalSet signals(loop.get_executor(), {SIGINT, SIGTERM, SIGHUP});
  std::optional<opensandbox::Result<opensandbox::LogEnd>> end;
  std::optional<int> signal;
  bool in_line = false;
  const auto read = [&]() -> net::awaitable<void> {
    opensandbox::LogOptions wanted{.tail = std::nullopt, .since = options.since, .follow = options.follow};
    if (options.tail > 0) wanted.tail = static_cast<int>(options.tail);
    const auto show = [&](std::span<const opensandbox::LogOutput> pieces) -> opensandbox::async::Task<bool> {
      co_return print(context, text_of(pieces, options.timestamps, in_line));
    };
    end = co_await opensandbox::async::SandboxManager(*connection).follow_logs(options.id, show, std::move(wanted));
  };
  const auto interrupted = [&]() -> net::awaitable<void> {
    if (const auto got = co_await signals.next()) signal = *got;
  };
  run_until_done(loop, [&]() -> net::awaitable<void> { co_await (read() || interrupted()); }());
  if (signal) return exit_code_after(*signal);
  if (end && *end) return 0;
  const opensandbox::Error error = end ? end->error() : opensandbox::Error{};
  // Either there is no such sandbox, or this server has no such stream.
  if (error.status == 404 || error.status == 405 || error.status == 501) return look_repeatedly(context, options);
  return sdk_failed(context, error);
}

// A background command's; following it the sandbox tells every line as it comes.
Outcome command_logs(CommandIo& context, LogsOptions& options) {
  if (!options.since.empty() || options.timestamps) {
    return usage_error("--since and --timestamps are for the entrypoint: a background command's lines have no times.");
  }
  if (options.follow && options.tail > 0) {
    return usage_error("--tail and --follow do not go together for a background command.",
                       "Without --tail all that is kept comes first.");
  }
  auto sandbox = context.sandbox(options.id);
  if (!sandbox) return failed(sandbox.error());
  const opensandbox::Commands commands = sandbox->commands();
  const auto explained = [&](const opensandbox::Error& error) {
    Problem problem = sdk_failed(context, error).error();
    if (error.status == 400 || error.status == 404)
      problem.hint = "The id is the execution_id of: osb command run -d " + options.id;
    return failed(std::move(problem));
  };
  if (!options.follow) {
    auto logs = commands.logs(options.execution);
    if (!logs) return explained(logs.error());
    print(context, options.tail > 0 ? last_lines(logs->text, options.tail) : std::string_view(logs->text));
    return 0;
  }
  std::FILE* const err = context.out().err().file;
  opensandbox::ExecutionHandlers handlers;
  handlers.on_event = [&](const opensandbox::ExecutionEvent& event) {
    using Type = opensandbox::ExecutionEvent::Type;
    if (event.type == Type::Stdout) {
      return print(context, event.line());
    }
    if (event.type == Type::Stderr) {
      context.out().error_text(event.line());
    } else if (event.type == Type::Gap) {
      context.out().error_text("osb: older output is gone\n");
    }
    return std::ferror(err) == 0;
  };
  opensandbox::RunOptions reading;
  reading.discard_output = true;
  auto followed = commands.follow(options.execution, 0, reading, handlers);
  if (std::ferror(err) != 0) return exit_code_of_signal(SIGPIPE);
  if (context.out().write_error() != 0 || followed) return 0;
  return explained(followed.error());
}

}  // namespace

void add_logs_command(Command& root, CommandIo& context) {
  Command& command = root.command("logs", "Print the output of the entrypoint or of a background command.");
  command.details("With -f also new output, until the program ends or Ctrl-C; Ctrl-C does not stop the program.");
  LogsOptions& options = command.values<LogsOptions>();
  command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
  command.argument("EXECUTION_ID", options.execution, "Of a background command; else the entrypoint.").optional();
  command.flag("-f,--follow", "Also print new output.", options.follow);
  command.option("-n,--tail", "N", "Begin with the last N lines.", options.tail).range(1, kMostLines);
  command.option("--since", "TIME", "Only output of the entrypoint since then: 90s, 15m, 2h, 1d.", options.since);
  command.flag("-t,--timestamps", "The entrypoint's lines with their times.", options.timestamps);
  command.formats({Format::Raw});
  command.action([&context, &options] {
    return options.execution.empty() ? entrypoint_logs(context, options) : command_logs(context, options);
  });
}

}  // namespace osb::cli
