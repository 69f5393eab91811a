#pragma once

#include <optional>
#include <string>
#include <vector>

#include "opensandbox/async.h"
#include "opensandbox/policies.h"

namespace opensandbox::async {

// As opensandbox::Policies.
class Policies {
 public:
  explicit Policies(Client client) : client_(std::move(client)) {}

  Task<PolicyTemplateList> list() const;
  Task<PolicyTemplate> get(std::string name) const;
  Task<PolicyExplanation> explain(std::string name, std::string host, std::optional<int> port = {}) const;
  Task<PolicyTemplate> compile(std::string text, std::string source = {}) const;
  Task<PolicySuggestion> suggest(std::vector<AskedHost> asked, std::string name = {}) const;

 private:
  Client client_;
};

}  // namespace opensandbox::async
