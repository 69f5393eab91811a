// Policy templates: /policies.
#include <opensandbox/async_policies.h>

#include "client/decode.h"
#include "client/errors.h"
#include "client/server_call.h"

namespace opensandbox::async {
namespace {

PolicyTemplateRule rule_from(const json::object& object) {
  PolicyTemplateRule out;
  out.action = text_of(object, "action");
  out.target = text_of(object, "target");
  if (const auto* ports = array_of(object, "ports")) {
    for (const auto& port : *ports) {
      if (const auto* number = port.if_int64()) out.ports.push_back(static_cast<int>(*number));
    }
  }
  if (const auto* origin = object_of(object, "origin")) {
    out.origin.kind = text_of(*origin, "kind");
    out.origin.template_name = text_of(*origin, "template");
    out.origin.capability = text_of(*origin, "capability");
    out.origin.part = text_of(*origin, "part");
    out.origin.source = text_of(*origin, "source");
    out.origin.line = int_of(*origin, "line").value_or(0);
    out.origin.column = int_of(*origin, "column").value_or(0);
  }
  return out;
}

PolicyTemplate template_from(const json::object& object) {
  PolicyTemplate out;
  out.name = text_of(object, "name");
  out.description = text_of(object, "description");
  out.source = text_of(object, "source");
  out.mode = text_of(object, "mode");
  out.extends = texts_of(object, "extends");
  out.capabilities = texts_of(object, "capabilities");
  out.default_action = text_of(object, "defaultAction");
  out.rule_count = int_of(object, "ruleCount").value_or(0);
  if (const auto* rules = array_of(object, "rules")) {
    for (const auto& item : *rules) {
      if (const auto* rule = item.if_object()) out.rules.push_back(rule_from(*rule));
    }
  }
  out.json = json::serialize(object);
  return out;
}

PolicyTemplateList list_from(const json::object& object) {
  PolicyTemplateList out;
  out.default_template = text_of(object, "default");
  if (const auto* items = array_of(object, "items")) {
    for (const auto& item : *items) {
      if (const auto* entry = item.if_object()) out.items.push_back(template_from(*entry));
    }
  }
  if (const auto* capabilities = array_of(object, "capabilities")) {
    for (const auto& item : *capabilities) {
      const auto* entry = item.if_object();
      if (entry == nullptr) continue;
      out.capabilities.push_back({text_of(*entry, "name"), text_of(*entry, "description"), text_of(*entry, "source"),
                                  texts_of(*entry, "includes"), texts_of(*entry, "allow")});
    }
  }
  out.json = json::serialize(object);
  return out;
}

PolicyExplanation explanation_from(const json::object& object) {
  PolicyExplanation out;
  out.template_name = text_of(object, "template");
  out.mode = text_of(object, "mode");
  out.host = text_of(object, "host");
  out.action = text_of(object, "action");
  out.because = text_of(object, "because");
  if (const auto* rule = object_of(object, "rule")) out.rule = rule_from(*rule);
  out.json = json::serialize(object);
  return out;
}

PolicySuggestion suggestion_from(const json::object& object) {
  return {text_of(object, "name"), text_of(object, "template"), json::serialize(object)};
}

template <typename T>
Task<T> ask_policies(ClientState state, Call call, T (*decode)(const json::object&)) {
  auto reply = co_await state->call(state->server, std::move(call));
  if (!reply) co_return Failure(std::move(reply.error()));
  const auto value = parse_answer(reply->body, reply->request_id);
  if (!value) co_return Failure(value.error());
  if (!value->is_object()) co_return invalid_response("the answer is no JSON object", reply->request_id);
  co_return decode(value->get_object());
}

std::string policy_target(const std::string& name) { return "/policies/" + encode(name); }

}  // namespace

Task<PolicyTemplateList> Policies::list() const {
  return ask_policies(client_.state(), {.target = "/policies"}, list_from);
}

Task<PolicyTemplate> Policies::get(std::string name) const {
  if (name.empty()) return failed<PolicyTemplate>(no_id("policy template"));
  return ask_policies(client_.state(), {.target = policy_target(name)}, template_from);
}

Task<PolicyExplanation> Policies::explain(std::string name, std::string host, std::optional<int> port) const {
  if (name.empty()) return failed<PolicyExplanation>(no_id("policy template"));
  std::string target = policy_target(name) + "/explain";
  add_query(target, "host", host);
  if (port) add_query(target, "port", std::to_string(*port));
  return ask_policies(client_.state(), {.target = std::move(target)}, explanation_from);
}

Task<PolicyTemplate> Policies::compile(std::string text, std::string source) const {
  json::object body{{"template", std::move(text)}};
  if (!source.empty()) body["source"] = source;
  return ask_policies(client_.state(), json_call("POST", "/policies/compile", json::serialize(body)), template_from);
}

Task<PolicySuggestion> Policies::suggest(std::vector<AskedHost> asked, std::string name) const {
  json::array hosts;
  for (const AskedHost& each : asked) hosts.push_back({{"host", each.host}, {"count", each.count}});
  json::object body{{"asked", std::move(hosts)}};
  if (!name.empty()) body["name"] = name;
  return ask_policies(client_.state(), json_call("POST", "/policies/suggest", json::serialize(body)), suggestion_from);
}

}  // namespace opensandbox::async
