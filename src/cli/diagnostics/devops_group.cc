#include "cli/commands.h"

namespace osb::cli {
namespace {

struct Options {
  std::string id, since;
  int tail = 100, limit = 50, event_limit = 20;
};

using Text = opensandbox::Result<std::string>;
using Fetch = std::function<Text(const opensandbox::SandboxManager&, const Options&)>;

Command& add(Command& group, CommandIo& context, const char* name, const char* summary, Options& o, Fetch fetch,
             const char* warning) {
  Command& command = group.command(name, summary);
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  command.formats({Format::Raw});
  command.action([&context, &o, fetch = std::move(fetch), warning]() -> Outcome {
    if (warning != nullptr) context.out().error_text(std::string(warning) + "\n");
    auto manager = context.manager_of_sandbox(o.id);
    if (!manager) return failed(manager.error());
    context.out().busy("Fetching...");
    auto text = fetch(*manager, o);
    if (!text && text.error().not_found()) {
      return failed(Problem{"", text.error().code, "Sandbox '" + o.id + "' not found.",
                            "See 'osb sandbox list' for what there is.", 1, 404, text.error().request_id});
    }
    if (!text) return sdk_failed(context, text.error());
    context.out().text(*text);
    if (!text->ends_with('\n')) context.out().text("\n");
    return 0;
  });
  return command;
}

}  // namespace

void add_devops_group(Command& root, CommandIo& context) {
  using opensandbox::SandboxManager;
  Command& group = root.command("devops", "The same as text, for people.");
  Options& logs = group.values<Options>();
  Command& logs_command = add(
      group, context, "logs", "Deprecated: use 'osb diagnostics logs'.", logs,
      [](const SandboxManager& m, const Options& o) { return m.logs_text(o.id, o.tail, o.since); },
      "Warning: `osb devops logs` is deprecated. Use `osb diagnostics logs`.");
  logs_command.option("-n,--tail", "INTEGER", "How many lines (default: 100).", logs.tail);
  logs_command.option("-s,--since", "TEXT", "Only lines newer than this, such as 10m.", logs.since);

  Options& inspect = group.values<Options>();
  add(
      group, context, "inspect", "Show everything the backend knows.", inspect,
      [](const SandboxManager& m, const Options& o) { return m.inspect_text(o.id); }, nullptr);

  Options& events = group.values<Options>();
  Command& events_command = add(
      group, context, "events", "Deprecated: use 'osb diagnostics events'.", events,
      [](const SandboxManager& m, const Options& o) { return m.events_text(o.id, o.limit); },
      "Warning: `osb devops events` is deprecated. Use `osb diagnostics events`.");
  events_command.option("-l,--limit", "INTEGER", "How many (default: 50).", events.limit);

  Options& summary = group.values<Options>();
  summary.tail = 50;
  Command& summary_command = add(
      group, context, "summary", "Inspect, events and logs in one.", summary,
      [](const SandboxManager& m, const Options& o) { return m.summary_text(o.id, o.tail, o.event_limit); }, nullptr);
  summary_command.option("-n,--tail", "INTEGER", "How many log lines (default: 50).", summary.tail);
  summary_command.option("--event-limit", "INTEGER", "How many events (default: 20).", summary.event_limit);
}

}  // namespace osb::cli
