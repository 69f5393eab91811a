#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "api/json.h"
#include "base/error.h"

// `lifecycle` of POST /sandboxes: programs that execd runs beside the entrypoint, and rules by which the server moves
// the deadline, pauses and wakes.
namespace osb::api {

// Ends before the entrypoint begins. A failure ends the sandbox.
struct PreStartHook {
  std::vector<std::string> command;  // argv; not empty, the first not blank
  std::chrono::seconds timeout{60};

  bool operator==(const PreStartHook&) const = default;
};

// Runs again and again beside the entrypoint.
struct PeriodicHook {
  std::string name;      // trimmed; no two are equal
  std::string schedule;  // base/cron.h; trimmed
  std::vector<std::string> command;
  std::chrono::seconds timeout{60};

  bool operator==(const PeriodicHook&) const = default;
};

// A question to the sandbox whether it works without being asked for anything: GET path of this port.
struct ActiveProbe {
  std::uint16_t port = 0;
  std::string path;
  std::chrono::seconds timeout{2};

  bool operator==(const ActiveProbe&) const = default;
};

struct IdlePolicy {
  std::optional<std::chrono::seconds> timeout;  // pauses after so long without activity; nothing: never by itself
  bool wake_on_access = true;
  std::optional<ActiveProbe> probe;

  bool operator==(const IdlePolicy&) const = default;
};

struct Lifecycle {
  std::optional<PreStartHook> pre_start;
  std::vector<PeriodicHook> periodic;
  std::optional<IdlePolicy> idle;
  std::optional<std::chrono::seconds> renew;  // renewalPolicy.extendSeconds

  bool has_hooks() const { return pre_start.has_value() || !periodic.empty(); }
  bool empty() const { return !has_hooks() && !idle && !renew; }
  bool operator==(const Lifecycle&) const = default;
};

// The field of the create; errors are rejected at the reader (422). Unknown fields are errors here.
Lifecycle read_lifecycle(ObjectReader& create);
// The field back. read_lifecycle() reads it to an equal struct.
json::object encode_lifecycle(const Lifecycle& lifecycle);

// Checks beyond the schema (400): schedules that cannot be read or never come, hooks that are too long for execd's
// environment.
Result<void> check_lifecycle(const Lifecycle& lifecycle, std::chrono::system_clock::time_point now);

// For a label of the sandbox. A text that is no policy counts as none.
std::string encode_idle_policy(const IdlePolicy& policy);
std::optional<IdlePolicy> decode_idle_policy(std::string_view text);

// Execd is given the hooks, and nothing else of it, in this variable; "" without hooks.
inline constexpr std::string_view kHooksVariable = "OPENSANDBOX_LIFECYCLE";
std::string encode_hooks(const Lifecycle& lifecycle);
Result<Lifecycle> decode_hooks(std::string_view text);

// The reason of a sandbox that has ended because its preStart failed.
inline constexpr std::string_view kReasonHookFailed = "LIFECYCLE_HOOK_FAILED";
// Where execd shares its output with the entrypoint, its last line of it begins so and says why the hook failed.
inline constexpr std::string_view kHookFailureLine = "execd: the sandbox ends: ";

}  // namespace osb::api
