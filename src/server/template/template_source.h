#pragma once

#include "api/lifecycle_create.h"
#include "base/error.h"
#include "server/store/store.h"

namespace osb::server {

// The create of a sandbox of a template: the template's snapshot, entrypoint, environment and limits, the request's
// timeout, metadata, network policy and extensions. 404 FSB::TEMPLATE_NOT_FOUND: unknown, out of scope, or not
// Succeeded.
Result<api::CreateSandbox> create_from_template(const Store& store, const api::CreateSandbox& wanted,
                                                const Scope& scope);

// The template, if sandboxes can be made of it.
Result<TemplatePtr> find_usable_template(const Store& store, const std::string& id, const Scope& scope);

}  // namespace osb::server
