#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "opensandbox/connection.h"

// Policy templates of a server (/v1/policies): network policies that its operator keeps, for CreateOptions::extensions
// {"policy.template", NAME}. Additive: other servers answer 404. `json` is the answer as it came.
namespace opensandbox {

struct PolicyTemplateRule {
  struct Origin {
    std::string kind = {};           // override or capability
    std::string template_name = {};  // that holds it
    std::string capability = {};     // that the template names
    std::string part = {};           // the included capability that has the rule, if it is another one
    std::string source = {};         // the template's file
    std::int64_t line = 0, column = 0;
  };
  std::string action = {};      // allow or deny
  std::string target = {};      // "": every address
  std::vector<int> ports = {};  // TCP; empty: all
  Origin origin = {};
};

struct PolicyTemplate {
  std::string name = {};
  std::string description = {};
  std::string source = {};
  std::string mode = {};  // enforce or audit
  std::vector<std::string> extends = {};
  std::vector<std::string> capabilities = {};
  std::string default_action = {};
  std::int64_t rule_count = 0;
  std::vector<PolicyTemplateRule> rules = {};  // empty in lists
  std::string json = {};
};

struct PolicyCapability {
  std::string name = {};
  std::string description = {};
  std::string source = {};
  std::vector<std::string> includes = {};
  std::vector<std::string> allow = {};
};

struct PolicyTemplateList {
  std::vector<PolicyTemplate> items = {};
  std::string default_template = {};  // of creates that name none; "": none
  std::vector<PolicyCapability> capabilities = {};
  std::string json = {};
};

struct PolicyExplanation {
  std::string template_name = {};
  std::string mode = {};
  std::string host = {};
  std::string action = {};  // allow or deny
  std::string because = {};
  std::optional<PolicyTemplateRule> rule = {};  // nothing: the default action, or an address that is never open
  std::string json = {};

  bool allowed() const { return action == "allow"; }
};

// A host that a sandbox asked for.
struct AskedHost {
  std::string host = {};
  std::int64_t count = 1;
};

struct PolicySuggestion {
  std::string name = {};
  std::string text = {};  // a template file
  std::string json = {};
};

// Thread-safe; cheap to copy. async_policies.h has the same as coroutines.
class Policies {
 public:
  explicit Policies(Client client) : client_(std::move(client)) {}

  Result<PolicyTemplateList> list() const;
  Result<PolicyTemplate> get(const std::string& name) const;
  // The decision of a template about a host name or an address. `port` matters for addresses only.
  Result<PolicyExplanation> explain(const std::string& name, const std::string& host,
                                    std::optional<int> port = std::nullopt) const;
  // A template that is not stored: its text, TOML, and the name of its file for errors.
  Result<PolicyTemplate> compile(const std::string& text, const std::string& source = {}) const;
  // The smallest template that allows these hosts.
  Result<PolicySuggestion> suggest(const std::vector<AskedHost>& asked, const std::string& name = {}) const;

 private:
  Client client_;
};

}  // namespace opensandbox
