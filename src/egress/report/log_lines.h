#pragma once

#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "egress/dns/answer.h"
#include "policy/changes.h"

namespace osb::egress {

// Lines about one sandbox, with the contract's events. `log` names the sandbox unless every line does so already.
void log_change(const Logger& log, const policy::Change& change, const Error* failed);
void log_outbound(const Logger& log, std::string_view name, const Answer& answer);
void log_unanswered(const Logger& log, std::string_view name, std::string_view why);

}  // namespace osb::egress
