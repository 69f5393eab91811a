#include "cli/egress/sidecar.h"

namespace osb::cli {

Outcome explain_silence(CommandIo& context, const std::string& sandbox, Outcome outcome) {
  if (outcome) return outcome;
  const Problem& told = outcome.error();
  const bool silent = told.code == "NETWORK_ERROR" || told.status == 502 || told.status == 503;
  if (!silent) return outcome;
  auto manager = context.manager();
  if (!manager) return outcome;
  const auto info = manager->get(sandbox);
  if (!info) return sdk_failed(context, info.error());
  if (info->status.state != opensandbox::state::kRunning) {
    return failed(Problem{"Sandbox Error", "SANDBOX_NOT_RUNNING", "Sandbox " + sandbox + " is " + info->status.state,
                          "'osb sandbox get " + sandbox + "' shows why."});
  }
  Problem none{
      "Sandbox Error", "NO_NETWORK_POLICY", "Sandbox " + sandbox + " has no network policy",
      "Only a sandbox made with a network policy has egress rules and a credential vault: --network-policy-file, or "
      "--allow and --deny-all of 'osb run'."};
  none.status = told.status;
  return failed(std::move(none));
}

}  // namespace osb::cli
