#include "server/service/check_policy.h"

#include <boost/json/serialize.hpp>

#include "api/lifecycle_error.h"
#include "policy/changes.h"

namespace osb::server {

Result<void> check_network_policy(const api::CreateSandbox& create) {
  if (!create.network_policy) return {};
  const auto policy = policy::replace_policy(boost::json::serialize(api::to_json(*create.network_policy)));
  if (policy) return {};
  const Error& error = policy.error();
  const std::string where = error.message.starts_with('/') ? "/networkPolicy" : "/networkPolicy: ";
  return api::refuse(error.code, api::reason::kInvalidParameter, where + error.message);
}

}  // namespace osb::server
