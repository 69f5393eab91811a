#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/lifecycle_create.h"
#include "api/lifecycle_query.h"
#include "base/error.h"
#include "base/time.h"

// Answers of the lifecycle API about sandboxes. Encoders give JSON text; a field without a value is left out and never
// null, because clients break on null.
namespace osb::api {

namespace state {
inline constexpr std::string_view kPending = "Pending";
inline constexpr std::string_view kRunning = "Running";
inline constexpr std::string_view kPausing = "Pausing";
inline constexpr std::string_view kPaused = "Paused";
inline constexpr std::string_view kResuming = "Resuming";
inline constexpr std::string_view kStopping = "Stopping";
inline constexpr std::string_view kTerminated = "Terminated";
inline constexpr std::string_view kFailed = "Failed";
}  // namespace state

struct Status {
  std::string state;    // one of state::, or what a backend reports
  std::string reason;   // a word for programs; "" is left out, here and below
  std::string message;  // a sentence for people
  std::optional<Timestamp> last_transition_at;

  bool operator==(const Status&) const = default;
};

void append_status(std::string& out, const Status& status);

// A view: lives no longer than what it points to.
struct SandboxView {
  std::string_view id;
  const CreateSandbox* spec = nullptr;
  const Status* status = nullptr;
  const StringMap* metadata = nullptr;  // nullptr: left out
  Timestamp created_at{};
  std::optional<Timestamp> expires_at;  // nothing: until deleted
  std::string_view pool = {};           // whose pod it has; "": it was made for itself
};

// GET, PATCH: with image.uri or snapshotId. 202 of create: without both.
void append_sandbox(std::string& out, const SandboxView& sandbox);
std::string encode_sandbox(const SandboxView& sandbox);
std::string encode_created(const SandboxView& sandbox);
std::string encode_sandbox_list(std::span<const SandboxView> items, const PageInfo& page);

// One line of ?watch=: {"type":"state","timestamp":ms,"sandbox":{...}}, "deleted" or "ping"; framed by the caller.
std::string encode_state_event(std::int64_t unix_ms, const SandboxView& sandbox);
std::string encode_deleted_event(std::int64_t unix_ms);
std::string encode_ping_event(std::int64_t unix_ms);

// POST renew-expiration: the schema (422). Then the caller looks the sandbox up, then check_renew(): a time that is not
// in the future is 400 <backend>::INVALID_EXPIRATION. That the sandbox has no deadline to renew is a 409 with the same
// code, and the store's to say.
Result<Timestamp> decode_renew(std::string_view body);
Result<void> check_renew(Timestamp expires_at, Timestamp now, std::string_view backend);
std::string encode_renewed(Timestamp expires_at);

// POST /metrics/events of newer clients.
struct MetricsEvent {
  std::string event_type;
  std::string sandbox_id;
  std::string image;
  double create_duration_ms = 0;
  bool success = false;
};
Result<MetricsEvent> decode_metrics_event(std::string_view body);

}  // namespace osb::api
