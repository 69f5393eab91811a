#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "policy/policy.h"
#include "policy/templates/toml_tree.h"

namespace osb::policy {

// A policy as an operator writes it:
//   name = "python"
//   description = "Python packages and GitHub"
//   extends = "base"
//   capabilities = ["pypi", "github"]
//   default_action = "deny"
//   mode = "enforce"                       # or "audit"
//   [overrides]
//   egress = [{action = "deny", target = "gist.github.com"}]
// Every key but those of a rule may be left out; the name is then the file's.
struct Template {
  struct Reference {
    std::string name;
    TomlPlace place;
  };
  struct PlacedRule {
    Rule rule;
    TomlPlace place;
  };

  std::string name, description;
  std::string source;  // the file, for people
  std::optional<Reference> extends;
  std::vector<Reference> capabilities;
  std::vector<PlacedRule> overrides;
  std::optional<Action> default_action;
  TomlPlace default_place;
  bool audit = false;
};

// Errors are Code::InvalidRequest (too large: Code::TooLarge) and name file, line and column. Capabilities and the
// template that it extends are looked up later, by compile_template.
Result<Template> parse_template(std::string_view text, std::string source, std::string_view fallback_name);

}  // namespace osb::policy
