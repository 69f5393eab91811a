#include "execd/run/end_reason.h"

#include <csignal>

#include "base/json_escape.h"
#include "base/out_of_memory.h"

namespace osb::execd {

void append_reason(std::string& json, const std::optional<EndReason>& reason) {
  if (!reason) return;
  json += R"(,"reason":)";
  append_json_string(json, reason->code);
  json += R"(,"reason_message":)";
  append_json_string(json, reason->message);
}

OomKills::Mark OomKills::mark() const {
  if (!stats_) return {};
  return {stats_().oom_kills(), stats_().limit_hits(), explained_};
}

std::optional<EndReason> OomKills::explain(const Mark& start, const sys::ExitStatus& status) {
  const bool killed = status.signal == SIGKILL || (status.signal == 0 && status.code == 128 + SIGKILL);
  if (!killed || !stats_ || !start.kills) return std::nullopt;
  const auto kills = stats_().oom_kills();
  if (!kills || *kills <= *start.kills || *kills - *start.kills <= explained_ - start.explained) return std::nullopt;
  ++explained_;
  const sys::CgroupStats::Memory memory = stats_().memory();
  const auto hits = stats_().limit_hits();
  const bool reached = hits && start.limit_hits ? *hits > *start.limit_hits : stats_().peak_was_limit().value_or(true);
  return EndReason{kReasonOutOfMemory,
                   out_of_memory_message(memory.limited ? std::optional(memory.total_bytes) : std::nullopt, reached)};
}

}  // namespace osb::execd
