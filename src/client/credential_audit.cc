// CredentialVault: uses of credentials and changes of the vault, as a list and as they come.
#include <opensandbox/async.h>

#include "client/egress_events.h"

namespace opensandbox::async {
namespace {

CredentialAuditLine line_from(const json::object& object) {
  CredentialAuditLine out;
  out.time = text_of(object, "time");
  out.operation = text_of(object, "operation");
  out.decision = text_of(object, "decision");
  out.binding = text_of(object, "credential_binding");
  out.source_type = text_of(object, "credential_source_type");
  out.host = text_of(object, "target_host");
  out.method = text_of(object, "method");
  out.path_pattern = text_of(object, "path_pattern");
  out.headers = text_of(object, "headers");
  out.substitutions = text_of(object, "substitutions");
  out.revision = int_of(object, "credential_vault_revision").value_or(0);
  out.status_code = int_of(object, "status_code").value_or(0);
  out.json = json::serialize(object);
  return out;
}

Task<std::vector<CredentialAuditLine>> list(SandboxPtr sandbox) {
  auto objects = co_await list_egress(std::move(sandbox), "/credential-vault/audit", "lines");
  if (!objects) co_return Failure(std::move(objects.error()));
  std::vector<CredentialAuditLine> out;
  for (const auto& each : *objects) out.push_back(line_from(each));
  co_return out;
}

Task<bool> hand_over(CredentialAuditSink sink, json::object object) { co_return co_await sink(line_from(object)); }

}  // namespace

Task<std::vector<CredentialAuditLine>> CredentialVault::audit() const { return list(sandbox_); }
Task<void> CredentialVault::follow_audit(CredentialAuditSink sink) const {
  return follow_egress(sandbox_, "/credential-vault/audit?follow=true",
                       [sink = std::move(sink)](json::object object) { return hand_over(sink, std::move(object)); });
}

}  // namespace opensandbox::async
