#include "mcp/schema.h"
#include "mcp/tools/tools.h"

namespace osb::mcp::tools {
namespace {

constexpr std::string_view kFeature = "An egress policy";

ToolResult answer(const opensandbox::Result<opensandbox::EgressPolicy>& policy) {
  if (!policy) return unless_offered(policy.error(), kFeature);
  json::array rules;
  for (const auto& rule : policy->policy.egress) {
    json::object item{{"action", rule.action}, {"target", rule.target}};
    if (!rule.ports.empty()) item["ports"] = json::array(rule.ports.begin(), rule.ports.end());
    rules.push_back(std::move(item));
  }
  return json::object{
      {"available", true},
      {"mode", or_null(policy->mode)},
      {"enforcement_mode", or_null(policy->enforcement_mode)},
      {"policy", json::object{{"defaultAction", policy->policy.default_action}, {"egress", std::move(rules)}}}};
}

// The answer to a change need not have the policy.
net::awaitable<ToolResult> answer_with_policy(sdk::Sandbox sandbox,
                                              const opensandbox::Result<opensandbox::EgressPolicy>& changed) {
  if (!changed) co_return unless_offered(changed.error(), kFeature);
  co_return answer(co_await sandbox.egress().get());
}

net::awaitable<ToolResult> egress_get(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  co_return answer(co_await sandbox->egress().get());
}

net::awaitable<ToolResult> egress_patch(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  std::vector<opensandbox::NetworkRule> rules;
  for (const json::value& rule : call.argument("rules").as_array()) {
    rules.push_back({std::string(rule.at("action").as_string()), std::string(rule.at("target").as_string())});
  }
  const auto changed = co_await sandbox->egress().patch(std::move(rules));
  co_return co_await answer_with_policy(*sandbox, changed);
}

net::awaitable<ToolResult> egress_delete(Call& call) {
  auto sandbox = co_await find_sandbox(call);
  if (!sandbox) co_return ToolFailure(sandbox.error());
  const auto changed = co_await sandbox->egress().remove(call.texts("targets"));
  co_return co_await answer_with_policy(*sandbox, changed);
}

}  // namespace

std::vector<Tool> egress_tools() {
  const json::object id = sandbox_id_argument();
  const json::object connect = connect_argument();
  const json::object text = schema::nullable(schema::string(""));
  const json::object rule = schema::object({{"action", schema::one_of({"allow", "deny"}, "")},
                                            {"target", schema::string("A domain name, *.domain, address or CIDR.")}});
  const json::object shape =
      schema::object({{"available", schema::boolean("false: this sandbox has no egress policy that could be asked.")},
                      {"code", text},
                      {"message", text},
                      {"mode", text},
                      {"enforcement_mode", text},
                      {"policy", schema::nullable(schema::object({{"defaultAction", schema::string("")},
                                                                  {"egress", schema::list_of(rule, "")}}))}});
  return {
      {.name = "egress_get_policy",
       .title = "Show what a sandbox may reach",
       .description =
           "The network policy of a sandbox. Only sandboxes that were created with a network_policy have one.",
       .hints = {.read_only = true},
       .input = schema::arguments({{"sandbox_id", id}, {"connect_if_missing", connect}}),
       .output = shape,
       .run = egress_get},
      {.name = "egress_patch_rules",
       .title = "Change what a sandbox may reach",
       .description = "Add network rules. A rule replaces the rule for the same target; other rules and the default "
                      "stay. Returns the policy.",
       .hints = {.destructive = true, .idempotent = true},
       .input = schema::arguments(
           {{"sandbox_id", id}, {"rules", schema::list_of(rule, "")}, {"connect_if_missing", connect}}),
       .output = shape,
       .run = egress_patch},
      {.name = "egress_delete_rules",
       .title = "Remove network rules",
       .description = "Remove the network rules for these targets; unknown targets are fine. Returns the policy.",
       .hints = {.destructive = true, .idempotent = true},
       .input = schema::arguments(
           {{"sandbox_id", id}, {"targets", schema::string_list("")}, {"connect_if_missing", connect}}),
       .output = shape,
       .run = egress_delete},
  };
}

}  // namespace osb::mcp::tools
