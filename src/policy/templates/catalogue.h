#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "policy/policy.h"
#include "policy/templates/toml_tree.h"

namespace osb::policy {

// A name for the hosts that one tool or service needs, such as "pypi". Capabilities only allow.
struct Capability {
  struct Include {
    std::string name;
    TomlPlace place;
  };

  std::string name, description;
  std::string source;  // the file, for people
  TomlPlace place;
  std::vector<Include> includes;  // capabilities that belong to it
  std::vector<Rule> allow;        // its own targets
};

// All capabilities by name. Includes are resolved: they exist and have no cycle.
class Catalogue {
 public:
  // The one that is built in: deploy/policies/catalogue.toml.
  static const Catalogue& builtin();

  // Adds the capabilities of a file:
  //   [[capability]]
  //   name = "intranet"
  //   description = "Hosts of the company"
  //   includes = ["git"]
  //   allow = ["*.corp.example", "10.1.0.0/16"]
  // A name that `base` has too is replaced. Errors name file, line and column.
  static Result<Catalogue> parse(std::string_view text, std::string source, const Catalogue& base);

  const Capability* find(std::string_view name) const;
  const std::map<std::string, Capability, std::less<>>& all() const { return all_; }
  std::vector<std::string_view> names() const;

  // The capability's own rules and those of all that it includes, each with its owner. Nothing for an unknown name.
  struct Part {
    const Capability* owner = nullptr;
    const Rule* rule = nullptr;
  };
  std::vector<Part> rules(std::string_view name) const;

 private:
  std::map<std::string, Capability, std::less<>> all_;
};

// Names of templates and capabilities: small letters, digits, '.', '-' and '_', at most 64, beginning with a letter or
// digit.
bool is_policy_name(std::string_view name);
inline constexpr std::string_view kPolicyNameRule =
    "a name has at most 64 small letters, digits, '.', '-' and '_' and begins with a letter or digit";

}  // namespace osb::policy
