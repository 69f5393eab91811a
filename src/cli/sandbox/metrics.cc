#include <csignal>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/encode.h"
#include "cli/sandbox/sandbox_commands.h"

namespace osb::cli {
namespace {

struct Options {
  std::string id;
  bool watch = false;
};

std::string sample_line(const opensandbox::Metrics& m) {
  const opensandbox::Timestamp time{std::chrono::milliseconds(m.timestamp)};
  return fmt::format("[{}] cpu={:.2f}% cores={:g} mem={:.2f}/{:.2f}MiB\n", opensandbox::format_timestamp(time),
                     m.cpu_used_pct, m.cpu_count, m.mem_used_mib, m.mem_total_mib);
}

Outcome watch(CommandIo& context, const opensandbox::Sandbox& sandbox) {
  // Every sample is flushed before the next is waited for, so Ctrl-C loses nothing.
  std::signal(SIGINT, [](int) { ::_exit(0); });
  Output& out = context.out();
  const auto show = [&out](const opensandbox::Metrics& sample) {
    if (out.format() == Format::Json) {
      out.json_line(encode(sample));
    } else if (out.format() == Format::Yaml) {
      out.text("---\n");
      out.data(encode(sample));
    } else {
      out.text(sample_line(sample));
    }
    out.flush();
    return out.write_error() == 0;
  };
  if (auto done = sandbox.watch_metrics(show); !done) {
    if (done.error().kind == opensandbox::ErrorKind::Cancelled) return 0;
    return sdk_failed(context, done.error());
  }
  return 0;
}

}  // namespace

void add_sandbox_metrics(Command& group, CommandIo& context) {
  Command& command = group.command("metrics", "Show the CPU and memory use of a sandbox.");
  Options& options = command.values<Options>();
  command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
  command.flag("--watch", "A sample a second until Ctrl-C.", options.watch);
  command.formats({Format::Table, Format::Json, Format::Yaml, Format::Raw});
  command.action([&context, &options]() -> Outcome {
    auto sandbox = context.sandbox(options.id);
    if (!sandbox) return failed(sandbox.error());
    if (options.watch) return watch(context, *sandbox);
    context.out().busy("Measuring...");
    auto metrics = sandbox->metrics();
    if (!metrics) return sdk_failed(context, metrics.error());
    if (context.out().format() == Format::Raw) return context.out().text(sample_line(*metrics)), 0;
    context.out().object(encode(*metrics), "Sandbox Metrics");
    return 0;
  });
}

}  // namespace osb::cli
