#include "cli/commands.h"
#include "cli/encode.h"

namespace osb::cli {
namespace {

struct Options {
  std::string id, scope;
};

Outcome show(CommandIo& context, const opensandbox::Result<opensandbox::Diagnostics>& got, std::string_view title) {
  if (!got) return sdk_failed(context, got.error());
  Output& out = context.out();
  if (out.format() != Format::Raw) return out.object(encode(*got), title), 0;
  if (got->truncated) out.error_text("Warning: diagnostic content was truncated.\n");
  for (const std::string& warning : got->warnings) out.error_text("Warning: " + warning + "\n");
  if (got->delivery == "inline") {
    out.text(got->content);
    if (!got->content.ends_with('\n')) out.text("\n");
    return 0;
  }
  if (got->content_url.empty()) {
    return invalid("Diagnostic response did not include inline content or a content URL.");
  }
  out.text(got->content_url + "\n");
  return 0;
}

void add(Command& group, CommandIo& context, bool logs) {
  Command& command = logs ? group.command("logs", "Show logs of a sandbox.")
                          : group.command("events", "Show the events of a sandbox.");
  Options& o = command.values<Options>();
  command.argument("SANDBOX_ID", o.id).completes(Completes::Sandboxes);
  command
      .option("-s,--scope", "TEXT", logs ? "Usual scopes: lifecycle, container." : "Usual scopes: lifecycle, runtime.",
              o.scope)
      .required();
  command.formats({Format::Table, Format::Json, Format::Yaml, Format::Raw}, Format::Raw);
  command.action([&context, &o, logs]() -> Outcome {
    auto manager = context.manager_of_sandbox(o.id);
    if (!manager) return failed(manager.error());
    context.out().busy("Fetching...");
    return logs ? show(context, manager->logs(o.id, o.scope), "Diagnostic Logs")
                : show(context, manager->events(o.id, o.scope), "Diagnostic Events");
  });
}

}  // namespace

void add_diagnostics_group(Command& root, CommandIo& context) {
  Command& group = root.command("diagnostics", "Logs and events of a sandbox, for programs.");
  add(group, context, true);
  add(group, context, false);
}

}  // namespace osb::cli
