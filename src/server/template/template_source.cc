#include "server/template/template_source.h"

#include "api/lifecycle_error.h"

namespace osb::server {

Result<TemplatePtr> find_usable_template(const Store& store, const std::string& id, const Scope& scope) {
  TemplatePtr found = store.find_template(id, scope);
  if (found && found->status.phase == api::template_phase::kSucceeded) return found;
  std::string why = "template " + id + (found ? " is " + found->status.phase : " does not exist");
  if (found && found->status.phase == api::template_phase::kFailed) why += ": " + found->status.message;
  return api::refuse(Code::NotFound, api::reason::kTemplateNotFound, std::move(why));
}

Result<api::CreateSandbox> create_from_template(const Store& store, const api::CreateSandbox& wanted,
                                                const Scope& scope) {
  const auto found = find_usable_template(store, wanted.template_id, scope);
  if (!found) return Failure(found.error());
  const api::CreateSandbox workload = api::build_spec(*(*found)->spec);
  api::CreateSandbox out = wanted;
  out.snapshot_id = (*found)->snapshot_id;
  out.entrypoint = workload.entrypoint;
  out.env = workload.env;
  out.resource_limits = workload.resource_limits;
  return out;
}

}  // namespace osb::server
