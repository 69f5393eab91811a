#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "policy/policy.h"
#include "policy/templates/catalogue.h"
#include "policy/templates/template.h"

namespace osb::policy {

// The place that a rule comes from.
struct Origin {
  std::string template_name;
  std::string capability;  // that the template names; empty: [overrides] of the template
  std::string part;        // the included capability that holds the rule, if it is not `capability` itself
  std::string source;      // file of the template
  TomlPlace place;         // of the rule, or of the capability's name in the template

  std::string text() const;  // "capability git (github) of template base, base.toml:3:17"
};

struct CompiledRule {
  Rule rule;
  Origin origin;
};

struct CompiledTemplate {
  std::string name, description, source;
  std::vector<std::string> extends;       // parents, the nearest first
  std::vector<std::string> capabilities;  // of the template and its parents
  bool audit = false;
  Action default_action = Action::Deny;
  std::string default_origin;  // the template that says so; empty: none does, so it is deny
  std::vector<CompiledRule> rules;

  Policy policy() const;
};

// Templates by name with the catalogue that they use.
struct TemplateSet {
  Catalogue catalogue = Catalogue::builtin();
  std::map<std::string, Template, std::less<>> templates = {};

  // Refuses a name that is taken, and names both files.
  Result<void> add(Template one);
  std::vector<std::string_view> names() const;
};

// The rules in the order in which names ask them: the template's overrides, those of its parents, the template's
// capabilities, those of its parents. So a child lifts a parent's deny only by an override of its own, never by a
// capability. Of rules with equal keys the first is kept. The default action is the nearest one given. A template is in
// audit mode only if it says so itself: a child of an audited template is enforced. Unknown names, cycles and more than
// 4,096 rules are errors with file, line and column. Code::NotFound: no template has the name.
Result<CompiledTemplate> compile_template(const TemplateSet& set, std::string_view name);

// The decision of a template about a host name or an address, and the rule behind it.
struct Explanation {
  std::string host;
  Action action = Action::Deny;
  std::optional<CompiledRule> rule;  // nothing: the default action, or a closed range
  std::string because;               // a sentence
};
// `port` matters for addresses only: rules with ports match that TCP port. Without one they do not match.
Result<Explanation> explain(const CompiledTemplate& compiled, std::string_view host,
                            std::optional<std::uint16_t> port = std::nullopt);

// For the API and for people's --json. `with_rules` adds the compiled rules with their origins.
api::json::object to_json(const CompiledTemplate& compiled, bool with_rules);
api::json::object to_json(const Explanation& explanation, const CompiledTemplate& compiled);
api::json::object to_json(const Capability& capability);

}  // namespace osb::policy
