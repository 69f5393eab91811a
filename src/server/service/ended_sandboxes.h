#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/time.h"
#include "server/store/record.h"

namespace osb::server {

// Remembers how the last sandboxes left, so that the answer to a later question can say more than "does not exist".
// Bounded: the oldest is forgotten first. Lost with the process.
class EndedSandboxes {
 public:
  static constexpr std::size_t kMost = 4096;

  void note_expired(const SandboxRecord& record, Timestamp at) { note(record, "expired at " + format_timestamp(at)); }
  void note_deleted(const SandboxRecord& record, Timestamp at) {
    note(record, "was deleted at " + format_timestamp(at) + " by an API request");
  }
  // A sandbox that ended by itself and was kept for a while; the message of its last status tells why.
  void note_retired(const SandboxRecord& record, Timestamp at) {
    const std::string& why = record.status.message;
    note(record, "ended" + (why.empty() ? "" : " (" + why + ")") + " and was removed at " + format_timestamp(at));
  }

  // The words behind "sandbox ID", such as "expired at 2026-01-02T03:04:05Z"; empty if unknown or out of scope.
  std::string find(std::string_view id, const Scope& scope) const {
    const auto found = endings_.find(std::string(id));
    return found == endings_.end() || !scope.covers(found->second.tenant) ? std::string() : found->second.how;
  }
  std::size_t size() const { return endings_.size(); }

 private:
  struct Ending {
    std::string tenant, how;
  };
  void note(const SandboxRecord& record, std::string how) {
    if (!endings_.insert_or_assign(record.id, Ending{record.owner.tenant, std::move(how)}).second) return;
    order_.push_back(record.id);
    if (order_.size() <= kMost) return;
    endings_.erase(order_.front());
    order_.pop_front();
  }

  std::unordered_map<std::string, Ending> endings_;
  std::deque<std::string> order_;
};

}  // namespace osb::server
