#include "cli/commands.h"
#include "cli/egress/egress_log.h"
#include "cli/egress/rule_text.h"
#include "cli/egress/sidecar.h"
#include "cli/encode.h"
#include "cli/sandbox/create_files.h"

namespace osb::cli {
namespace {

const std::vector<Format> kFormats = {Format::Table, Format::Json, Format::Yaml};

json::object encode_rule(const opensandbox::NetworkRule& rule) {
  json::object out{{"action", rule.action}, {"target", rule.target}};
  if (!rule.ports.empty()) out["ports"] = json::array(rule.ports.begin(), rule.ports.end());
  return out;
}

struct Options {
  std::string id, file;
  std::vector<std::string> rules, targets;
};

Outcome set(CommandIo& context, Options& o) {
  auto policy = read_network_policy(o.file);
  if (!policy) return failed(policy.error());
  auto sandbox = context.sandbox(o.id);
  if (!sandbox) return failed(sandbox.error());
  context.out().busy("Replacing...");
  const auto done = sandbox->egress().replace(*policy);
  if (!done) return explain_silence(context, o.id, sdk_failed(context, done.error()));
  context.out().panel("Egress Policy Replaced",
                      {{"sandbox_id", o.id}, {"mode", done->mode}, {"rules", policy->egress.size()}});
  return 0;
}

Outcome remove(CommandIo& context, Options& o) {
  auto sandbox = context.sandbox(o.id);
  if (!sandbox) return failed(sandbox.error());
  context.out().busy("Removing...");
  const auto done = sandbox->egress().remove(o.targets);
  if (!done) return explain_silence(context, o.id, sdk_failed(context, done.error()));
  json::object shown{{"sandbox_id", o.id}, {"removed_targets", json::array(o.targets.begin(), o.targets.end())}};
  if (!done->reason.empty()) shown["note"] = done->reason;
  context.out().panel("Egress Rules Removed", shown);
  return 0;
}

Outcome patch(CommandIo& context, Options& o) {
  std::vector<opensandbox::NetworkRule> rules;
  json::array shown;
  for (const std::string& text : o.rules) {
    auto rule = parse_rule(text);
    if (!rule) return failed(rule.error());
    shown.push_back(encode_rule(*rule));
    rules.push_back(std::move(*rule));
  }
  auto sandbox = context.sandbox(o.id);
  if (!sandbox) return failed(sandbox.error());
  context.out().busy("Patching...");
  if (auto done = sandbox->egress().patch(rules); !done) {
    return explain_silence(context, o.id, sdk_failed(context, done.error()));
  }
  context.out().panel("Egress Policy Patched", {{"sandbox_id", o.id}, {"patched_rules", std::move(shown)}});
  return 0;
}

}  // namespace

void add_egress_group(Command& root, CommandIo& context) {
  Command& group = root.command("egress", "See and change the hosts that a sandbox may reach.");
  Command& get = group.command("get", "Show the rules.");
  Options& g = get.values<Options>();
  get.argument("SANDBOX_ID", g.id).completes(Completes::Sandboxes);
  get.formats(kFormats);
  get.action([&context, &g]() -> Outcome {
    auto sandbox = context.sandbox(g.id);
    if (!sandbox) return failed(sandbox.error());
    context.out().busy("Fetching...");
    auto policy = sandbox->egress().get();
    if (!policy) return explain_silence(context, g.id, sdk_failed(context, policy.error()));
    context.out().object(encode(policy->policy), "Egress Policy");
    return 0;
  });
  Command& change = group.command("patch", "Add rules; they win over older ones for the same target.");
  Options& p = change.values<Options>();
  change.argument("SANDBOX_ID", p.id).completes(Completes::Sandboxes);
  change.option("--rule", "ACTION=TARGET", "Rule, such as allow=pypi.org or deny=10.0.0.0/8@22. Repeatable.", p.rules)
      .required();
  change.formats(kFormats);
  change.action([&context, &p] { return patch(context, p); });
  Command& replace = group.command("set", "Replace the whole policy.");
  Options& s = replace.values<Options>();
  replace.argument("SANDBOX_ID", s.id).completes(Completes::Sandboxes);
  replace.option("--file", "PATH", "JSON object: defaultAction, egress; - is standard input.", s.file)
      .required()
      .completes(Completes::Files);
  replace.formats(kFormats);
  replace.action([&context, &s] { return set(context, s); });
  Command& drop = group.command("delete", "Remove the rules of some targets.");
  Options& d = drop.values<Options>();
  drop.argument("SANDBOX_ID", d.id).completes(Completes::Sandboxes);
  drop.argument("TARGET", d.targets, "As 'osb egress get' shows it.");
  drop.formats(kFormats);
  drop.action([&context, &d] { return remove(context, d); });
  add_egress_log(group, context);
}

}  // namespace osb::cli
