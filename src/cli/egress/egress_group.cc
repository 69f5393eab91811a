#include "cli/commands.h"
#include "cli/egress/sidecar.h"
#include "cli/encode.h"

namespace osb::cli {
namespace {

const std::vector<Format> kFormats = {Format::Table, Format::Json, Format::Yaml};

std::string trimmed(const std::string& text) {
  const auto from = text.find_first_not_of(" \t");
  return from == std::string::npos ? "" : text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

Expected<opensandbox::NetworkRule> parse_rule(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos) {
    return usage_error("Invalid value for '--rule': Invalid rule '" + text + "'.",
                       "Use ACTION=TARGET, for example allow=pypi.org.");
  }
  std::string action = trimmed(text.substr(0, equals));
  for (char& c : action) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (action != "allow" && action != "deny") {
    return usage_error("Invalid value for '--rule': Invalid rule action '" + action + "'.", "Use allow or deny.");
  }
  return opensandbox::NetworkRule{action, trimmed(text.substr(equals + 1))};
}

struct Options {
  std::string id;
  std::vector<std::string> rules;
};

Outcome patch(Context& context, Options& o) {
  std::vector<opensandbox::NetworkRule> rules;
  json::array shown;
  for (const std::string& text : o.rules) {
    auto rule = parse_rule(text);
    if (!rule) return failed(rule.error());
    shown.push_back({{"action", rule->action}, {"target", rule->target}});
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

void add_egress_group(Command& root, Context& context) {
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
  change.option("--rule", "ACTION=TARGET", "Rule, such as allow=pypi.org. Repeatable.", p.rules).required();
  change.formats(kFormats);
  change.action([&context, &p] { return patch(context, p); });
}

}  // namespace osb::cli
