#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "api/lifecycle_create.h"
#include "base/error.h"
#include "policy/templates/template_files.h"

namespace osb::server {

// The operator's policy templates, compiled. Used on one loop.
class PolicyLibrary {
 public:
  struct Options {
    std::filesystem::path directory = {};  // empty: there are no templates
    std::string default_template = {};     // for sandboxes whose create names none; empty: they have no policy
  };
  using Templates = std::map<std::string, policy::CompiledTemplate, std::less<>>;

  PolicyLibrary() = default;
  static const PolicyLibrary& none();
  // Reads the directory. One wrong file, and a default template that does not exist, refuse all; the error names the
  // place.
  static Result<PolicyLibrary> open(Options options);

  // Reads the directory again. After an error nothing has changed. The result says whether something has.
  Result<bool> reload(Options options);
  Result<bool> reload() { return reload(options_); }

  const Options& options() const { return options_; }
  const Templates& templates() const { return templates_; }
  const policy::Catalogue& catalogue() const { return set_.catalogue; }

  // Code::NotFound names the nearest template.
  Result<const policy::CompiledTemplate*> find(std::string_view name) const;

  // A template that is not stored. It may extend those that are; one with its name is left aside. `source` stands for
  // its file in errors.
  Result<policy::CompiledTemplate> compile(std::string_view text, const std::string& source) const;

 private:
  Options options_;
  std::vector<policy::PolicyFile> files_;
  policy::TemplateSet set_;
  Templates templates_;
};

// The name of a template, an extension of the create request.
inline constexpr std::string_view kPolicyTemplateKey = "policy.template";
// The mode of the template that was applied, "enforce" or "audit". The server sets it; requests must not.
inline constexpr std::string_view kPolicyModeKey = "policy.mode";

// Puts the policy of the template into the request: of the one that it names, else of the default one, else nothing
// happens. A networkPolicy in the request may only narrow the template (policy/narrow.h), and cannot be combined with
// one in audit mode. `no_network_policy`: the backend's reason why it enforces no policies, or "". Errors are 400.
Result<void> apply_template(const PolicyLibrary& library, const std::string& no_network_policy,
                            api::CreateSandbox& wanted);

}  // namespace osb::server
