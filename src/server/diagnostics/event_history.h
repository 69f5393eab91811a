#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/lifecycle_sandbox.h"
#include "base/time.h"

namespace osb::server {

struct SandboxEvent {
  Timestamp at{};
  std::string state;
  std::string reason;
  std::string message;

  bool operator==(const SandboxEvent&) const = default;
};

// The history of each sandbox in this process: the last `kept` transitions, for diagnostics. Memory only: the record
// itself has the time of the create and the present state, also after a restart. One loop.
class EventHistory {
 public:
  explicit EventHistory(std::size_t kept = 50) : kept_(kept) {}

  // Progress within a state and reason ("pulling 45%") replaces the message and makes no new event.
  void note(std::string_view id, Timestamp at, const api::Status& status);
  void forget(std::string_view id);
  std::vector<SandboxEvent> of(std::string_view id) const;  // oldest first

 private:
  std::size_t kept_;
  std::unordered_map<std::string, std::vector<SandboxEvent>> events_;
};

}  // namespace osb::server
