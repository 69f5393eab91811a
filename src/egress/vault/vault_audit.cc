#include "egress/vault/vault_audit.h"

#include <algorithm>

#include <boost/json/serialize.hpp>

#include "base/time.h"

namespace osb::egress {
namespace {

constexpr std::string_view kEventKey = "opensandbox.event";

double milliseconds(std::chrono::steady_clock::duration took) {
  return std::chrono::duration<double, std::milli>(took).count();
}

}  // namespace

void VaultMetrics::count_request(vault::Outcome outcome, std::chrono::duration<double> took) {
  ++requests_;
  if (outcome == vault::Outcome::Injected) ++injections_;
  if (outcome == vault::Outcome::Denied || outcome == vault::Outcome::AmbiguousMatch) ++denials_;
  if (outcome == vault::Outcome::SourceError) ++source_errors_;
  const auto bucket = std::ranges::lower_bound(kBounds, took.count());
  ++durations_[static_cast<std::size_t>(bucket - kBounds.begin())];
  duration_sum_ += took.count();
}

void VaultMetrics::count_mutation(bool succeeded) { ++(succeeded ? mutations_ : mutation_failures_); }

std::vector<std::pair<std::string_view, std::uint64_t>> VaultMetrics::counters() const {
  return {{"opensandbox_credential_proxy_requests_total", requests_},
          {"opensandbox_credential_proxy_injections_total", injections_},
          {"opensandbox_credential_proxy_denials_total", denials_},
          {"opensandbox_credential_proxy_source_errors_total", source_errors_},
          {"opensandbox_credential_vault_mutations_total", mutations_},
          {"opensandbox_credential_vault_mutation_failures_total", mutation_failures_}};
}

void VaultAudit::write(std::string_view event, std::string_view sandbox_id, LogFields fields) {
  log_info(event, fields);
  AuditTrail* trail = find_trail_ ? find_trail_(sandbox_id) : nullptr;
  if (trail == nullptr) return;
  boost::json::object line{{"time", format_timestamp(timestamp_now())}};
  for (const LogField& field : fields) {
    if (field.key == kEventKey) continue;
    std::visit(
        [&](const auto& value) {
          if constexpr (requires { value.empty(); }) {
            if (value.empty()) return;
          }
          line[field.key] = value;
        },
        field.value.data());
  }
  trail->add(boost::json::serialize(line));
}

void VaultAudit::request(const Request& request, const vault::Decision& decision) {
  metrics_.count_request(decision.outcome, request.took);
  if (decision.outcome == vault::Outcome::NoMatch) return;
  write("credential used", request.sandbox_id,
        {{kEventKey, "credential.audit"},
         {"operation", "inject"},
         {"decision", to_string(decision.outcome)},
         {"sandbox_id", request.sandbox_id},
         {"credential_binding", decision.binding},
         {"credential_vault_revision", decision.revision},
         {"credential_source_type", decision.source_type},
         {"target_host", request.host},
         {"method", request.method},
         {"path_pattern", decision.path_pattern},
         {"headers", decision.header_names},
         {"substitutions", decision.substituted},
         {"status_code", request.status_code},
         {"duration_ms", milliseconds(request.took)},
         {"request_id", request.request_id}});
}

void VaultAudit::mutation(const Mutation& mutation) {
  write("credential vault changed", mutation.sandbox_id,
        {{kEventKey, "credential.audit"},
         {"operation", mutation.operation},
         {"sandbox_id", mutation.sandbox_id},
         {"credential_binding", mutation.bindings},
         {"credential_vault_revision", mutation.revision},
         {"credential_source_type", mutation.source_type},
         {"actor_id", "egress-token"},
         {"status_code", mutation.status_code},
         {"duration_ms", milliseconds(mutation.took)},
         {"request_id", mutation.request_id}});
}

}  // namespace osb::egress
