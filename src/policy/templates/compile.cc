#include "policy/templates/compile.h"

#include <algorithm>
#include <unordered_set>

#include "base/json_escape.h"
#include "policy/changes.h"

namespace osb::policy {
namespace {

using Chain = std::vector<const Template*>;

// The template, its parent, the parent's parent, and so on.
Result<Chain> find_chain(const TemplateSet& set, const Template& first) {
  Chain out{&first};
  while (out.back()->extends) {
    const Template& child = *out.back();
    const std::string where = place_text(child.source, child.extends->place) + ": extends: ";
    const auto parent = set.templates.find(child.extends->name);
    if (parent == set.templates.end()) {
      return fail(Code::InvalidRequest, where + "unknown template " + in_quotes(child.extends->name) +
                                            did_you_mean(child.extends->name, set.names()));
    }
    if (std::ranges::find(out, &parent->second) != out.end())
      return fail(Code::InvalidRequest, where + "template " + child.name + " extends itself through " + parent->first);
    out.push_back(&parent->second);
  }
  return out;
}

// Adds rules whose key is new.
class Rules {
 public:
  explicit Rules(std::vector<CompiledRule>& out) : out_(out) {}
  void add(const Rule& rule, Origin origin) {
    if (seen_.insert(rule.key()).second) out_.push_back({rule, std::move(origin)});
  }

 private:
  std::vector<CompiledRule>& out_;
  std::unordered_set<std::string> seen_;
};

Result<void> add_capabilities(const Catalogue& catalogue, const Template& one, CompiledTemplate& out, Rules& rules) {
  for (const Template::Reference& wanted : one.capabilities) {
    if (catalogue.find(wanted.name) == nullptr) {
      return fail(Code::InvalidRequest, place_text(one.source, wanted.place) + ": capabilities: unknown capability " +
                                            in_quotes(wanted.name) + did_you_mean(wanted.name, catalogue.names()));
    }
    if (std::ranges::find(out.capabilities, wanted.name) == out.capabilities.end())
      out.capabilities.push_back(wanted.name);
    for (const Catalogue::Part& part : catalogue.rules(wanted.name)) {
      rules.add(*part.rule, {.template_name = one.name,
                             .capability = wanted.name,
                             .part = part.owner->name == wanted.name ? "" : part.owner->name,
                             .source = one.source,
                             .place = wanted.place});
    }
  }
  return {};
}

}  // namespace

std::string Origin::text() const {
  std::string out;
  if (capability.empty()) {
    out = "override";
  } else {
    out = "capability " + capability + (part.empty() ? "" : " (" + part + ")");
  }
  return out + " of template " + template_name + ", " + place_text(source, place);
}

Policy CompiledTemplate::policy() const {
  Policy out{.default_action = default_action, .egress = {}};
  out.egress.reserve(rules.size());
  for (const CompiledRule& each : rules) out.egress.push_back(each.rule);
  return out;
}

Result<void> TemplateSet::add(Template one) {
  const auto [other, fresh] = templates.try_emplace(one.name, one);
  if (fresh) return {};
  return fail(Code::InvalidRequest, one.source + ": the name " + one.name + " is taken by " + other->second.source +
                                        "; give one of them another");
}

std::vector<std::string_view> TemplateSet::names() const {
  std::vector<std::string_view> out;
  for (const auto& [name, each] : templates) out.push_back(name);
  return out;
}

Result<CompiledTemplate> compile_template(const TemplateSet& set, std::string_view name) {
  const auto found = set.templates.find(name);
  if (found == set.templates.end()) {
    return fail(Code::NotFound, "no policy template is called " + in_quotes(name) + did_you_mean(name, set.names()));
  }
  const Template& first = found->second;
  const auto chain = find_chain(set, first);
  if (!chain) return Failure(chain.error());
  CompiledTemplate out;
  out.name = first.name;
  out.description = first.description;
  out.source = first.source;
  out.audit = first.audit;
  Rules rules(out.rules);
  for (const Template* each : *chain) {
    if (each != &first) out.extends.push_back(each->name);
    if (each->default_action && out.default_origin.empty()) {
      out.default_action = *each->default_action;
      out.default_origin = each->name;
    }
    for (const auto& [rule, place] : each->overrides)
      rules.add(rule,
                {.template_name = each->name, .capability = {}, .part = {}, .source = each->source, .place = place});
  }
  for (const Template* each : *chain) {
    if (auto ok = add_capabilities(set.catalogue, *each, out, rules); !ok) return Failure(ok.error());
  }
  if (out.rules.size() > kDefaultMaxRules) {
    return fail(Code::TooLarge, first.source + ": template " + out.name + " has " + std::to_string(out.rules.size()) +
                                    " rules, at most " + std::to_string(kDefaultMaxRules) + " are allowed");
  }
  return out;
}

}  // namespace osb::policy
