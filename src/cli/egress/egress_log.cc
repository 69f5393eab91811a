#include "cli/egress/egress_log.h"

#include <fmt/format.h>

#include "api/json.h"
#include "cli/egress/sidecar.h"

namespace osb::cli {
namespace {

struct LogOptions {
  std::string id;
  bool follow = false, denied = false;
};

std::string verdict_of(const opensandbox::EgressDecision& decision) {
  return decision.audited ? "audit" : decision.verdict;
}

std::string because(const opensandbox::EgressDecision& decision) {
  std::string out = decision.rule.empty() ? "default" : decision.rule;
  if (!decision.note.empty()) out += ", " + decision.note;
  return out;
}

bool is_wanted(const opensandbox::EgressDecision& decision, const LogOptions& options) {
  return !options.denied || decision.verdict == "deny";
}

json::object encode_decision(const opensandbox::EgressDecision& decision) {
  json::array addresses(decision.addresses.begin(), decision.addresses.end());
  return {{"last_seen", decision.last_seen}, {"verdict", verdict_of(decision)}, {"count", decision.count},
          {"name", decision.name},           {"rule", because(decision)},       {"addresses", std::move(addresses)}};
}

Outcome show(CommandIo& context, const LogOptions& options, const opensandbox::Sandbox& sandbox) {
  context.out().busy("Fetching...");
  const auto decisions = sandbox.egress().decisions();
  if (!decisions) return explain_silence(context, options.id, sdk_failed(context, decisions.error()));
  json::array rows;
  std::string lines;
  for (const auto& each : *decisions) {
    if (!is_wanted(each, options)) continue;
    rows.push_back(encode_decision(each));
    lines += decision_line(each);
  }
  if (context.out().structured()) {
    context.out().data(rows);
  } else if (rows.empty()) {
    context.out().info("The sandbox has asked for no name yet.");
  } else {
    context.out().text(lines);
  }
  return 0;
}

// Until the sandbox ends or the reader of the output goes. A signal ends osb as usual.
Outcome follow(CommandIo& context, const LogOptions& options, const opensandbox::Sandbox& sandbox) {
  const auto ended = sandbox.egress().follow_decisions([&](const opensandbox::EgressDecision& decision) {
    if (is_wanted(decision, options)) {
      if (context.out().structured()) {
        context.out().json_line(encode_decision(decision));
      } else {
        context.out().text(decision_line(decision));
      }
      context.out().flush();
    }
    return context.out().write_error() == 0;
  });
  if (!ended) return explain_silence(context, options.id, sdk_failed(context, ended.error()));
  return 0;
}

}  // namespace

std::string decision_line(const opensandbox::EgressDecision& decision) {
  std::string addresses;
  for (const std::string& each : decision.addresses) addresses += " " + each;
  return fmt::format("{}  {:5}  {:>5}x  {}  ({}){}\n", decision.last_seen, verdict_of(decision), decision.count,
                     decision.name, because(decision), addresses.empty() ? "" : " ->" + addresses);
}

void add_egress_log(Command& group, CommandIo& context) {
  Command& command = group.command("log", "Show the names that a sandbox has asked for and what became of them.");
  LogOptions& options = command.values<LogOptions>();
  command.argument("SANDBOX_ID", options.id).completes(Completes::Sandboxes);
  command.flag("-f,--follow", "Go on with new ones until Ctrl-C.", options.follow);
  command.flag("--denied", "Only those that were denied.", options.denied);
  command.formats({Format::Table, Format::Json, Format::Yaml});
  command.action([&context, &options]() -> Outcome {
    auto sandbox = context.sandbox(options.id);
    if (!sandbox) return failed(sandbox.error());
    return options.follow ? follow(context, options, *sandbox) : show(context, options, *sandbox);
  });
}

}  // namespace osb::cli
