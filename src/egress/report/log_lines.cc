#include "egress/report/log_lines.h"

#include <boost/json/serialize.hpp>

#include "base/ip_address.h"

namespace osb::egress {

void log_change(const Logger& log, const policy::Change& change, const Error* failed) {
  if (failed != nullptr) {
    log.error("policy not changed", {{"opensandbox.event", "egress.update_failed"}, {"error", failed->message}});
    return;
  }
  std::string rules;
  for (const policy::Rule& rule : change.rules) {
    rules += (rules.empty() ? "" : ",") + std::string(policy::to_string(rule.action)) + " " + rule.text;
  }
  log.info("policy changed", {{"opensandbox.event", "egress.updated"},
                              {"egress.default", policy::to_string(change.policy.default_action)},
                              {"rules", rules},
                              {"policy", boost::json::serialize(policy::to_json(change.policy))}});
}

void log_outbound(const Logger& log, std::string_view name, const Answer& answer) {
  if (!log_enabled(LogLevel::Info)) return;
  std::string addresses;
  for (const auto& each : answer.addresses()) {
    addresses += (addresses.empty() ? "" : ",") + format_ip_address(each.address);
  }
  log.info("outbound", {{"opensandbox.event", "egress.outbound"}, {"target.host", name}, {"target.ips", addresses}});
}

void log_unanswered(const Logger& log, std::string_view name, std::string_view why) {
  log.warn("outbound", {{"opensandbox.event", "egress.outbound"}, {"target.host", name}, {"error", why}});
}

}  // namespace osb::egress
