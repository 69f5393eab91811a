#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/instance.h"
#include "server/diagnostics/event_history.h"
#include "server/store/record.h"

// The texts of GET /sandboxes/{id}/diagnostics/..., for people. Layout as in the contract; secrets are masked.
namespace osb::server {

// The data about a sandbox at one moment. Its pointers outlive the call.
struct DiagnosticSubject {
  const SandboxRecord& record;
  const runtime::Instance* instance = nullptr;  // nullptr: the backend has not reported it
  std::optional<runtime::ResourceUse> use;      // nothing: not running, or it could not be measured
  std::vector<SandboxEvent> events;             // oldest first
};

// Aligned "Label: value" lines, then the blocks Resources, Network, Ports, Labels and Environment.
std::string inspect_text(const DiagnosticSubject& subject);

// When it was made, started and ended, then an "Event:" line for each of the last `limit` things that happened.
std::string events_text(const DiagnosticSubject& subject, std::size_t limit);

// The same without the heading, one event a line with its time first: what the JSON form carries. `truncated` tells
// whether older ones were left out.
std::string event_lines(const DiagnosticSubject& subject, std::size_t limit, bool& truncated);

// A banner with the id and the three texts between rules.
std::string summary_text(std::string_view id, std::string_view inspect, std::string_view events, std::string_view logs);

// The last `lines` of a text; `cut` is set when there were more. A text that was `clipped` at its front, maybe in the
// middle of a line, loses that first line.
std::string last_lines(std::string_view text, std::size_t lines, bool clipped, bool& cut);

// Lines that begin with a time and a space, from the first one that is not before `since`; a line without a time
// belongs to the one above it.
std::string lines_since(std::string_view text, Timestamp since);

inline constexpr std::string_view kNoLogs = "(no logs)";
inline constexpr std::string_view kNoEvents = "(no notable events)";

}  // namespace osb::server
