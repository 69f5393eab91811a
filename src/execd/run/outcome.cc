#include "execd/run/outcome.h"

#include <string.h>
#include <vector>

#include "base/out_of_memory.h"
#include "base/text.h"

namespace osb::execd {
namespace {

std::string signal_name(int signal) {
  const char* name = ::sigdescr_np(signal);
  if (name == nullptr) return "signal " + std::to_string(signal);
  return lower(name);
}

}  // namespace

Outcome outcome_of(const sys::ExitStatus& status, const std::optional<EndReason>& reason) {
  if (status.signal != 0) return {-1, "signal: " + signal_name(status.signal), reason};
  if (status.code != 0) return {status.code, "exit status " + std::to_string(status.code), reason};
  return {};
}

void write_outcome(EventWriter& writer, const RunEnd& end) {
  const Outcome outcome = outcome_of(end.status);
  if (outcome.exit_code == 0) return writer.complete(end.took);
  std::vector<std::string> traceback{outcome.error};
  // The published clients know no reason; they show the traceback.
  if (end.reason && end.reason->code != kReasonInterrupted) traceback.push_back(end.reason->message);
  writer.error(kCommandError, std::to_string(outcome.exit_code), traceback, end.reason);
}

}  // namespace osb::execd
