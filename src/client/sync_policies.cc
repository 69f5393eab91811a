#include <opensandbox/async_policies.h>

#include "client/sync.h"

namespace opensandbox {
namespace {

async::Policies on(const Client& client) { return async::Policies(*client.core()->client); }

}  // namespace

Result<PolicyTemplateList> Policies::list() const { return client_.core()->run_task(on(client_).list()); }
Result<PolicyTemplate> Policies::get(const std::string& name) const {
  return client_.core()->run_task(on(client_).get(name));
}
Result<PolicyExplanation> Policies::explain(const std::string& name, const std::string& host,
                                            std::optional<int> port) const {
  return client_.core()->run_task(on(client_).explain(name, host, port));
}
Result<PolicyTemplate> Policies::compile(const std::string& text, const std::string& source) const {
  return client_.core()->run_task(on(client_).compile(text, source));
}
Result<PolicySuggestion> Policies::suggest(const std::vector<AskedHost>& asked, const std::string& name) const {
  return client_.core()->run_task(on(client_).suggest(asked, name));
}

}  // namespace opensandbox
