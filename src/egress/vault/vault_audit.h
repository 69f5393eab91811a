#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "egress/sandbox/audit_trail.h"
#include "vault/injector.h"

namespace osb::egress {

// Counters and one histogram, with the contract's names. Read by an exporter.
class VaultMetrics {
 public:
  // Upper bounds of the histogram in seconds; the last bucket has none.
  static constexpr std::array<double, 12> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                     0.1,   0.25,   0.5,   1,    2.5,   10};

  void count_request(vault::Outcome outcome, std::chrono::duration<double> took);
  void count_mutation(bool succeeded);

  // "opensandbox_credential_proxy_requests_total" and its value, and so on.
  std::vector<std::pair<std::string_view, std::uint64_t>> counters() const;
  // opensandbox_credential_proxy_request_duration_seconds: how many requests fell into each bucket.
  const std::array<std::uint64_t, kBounds.size() + 1>& durations() const { return durations_; }
  double duration_sum() const { return duration_sum_; }

 private:
  std::uint64_t requests_ = 0, injections_ = 0, denials_ = 0, source_errors_ = 0;
  std::uint64_t mutations_ = 0, mutation_failures_ = 0;
  std::array<std::uint64_t, kBounds.size() + 1> durations_{};
  double duration_sum_ = 0;
};

// Writes one line per use of a credential and per change of a vault, with the contract's fields, and counts. A value of
// a credential is never among them. One loop.
class VaultAudit {
 public:
  // Finds the trail that keeps the lines of a sandbox; null: only the log has them.
  using FindTrail = std::function<AuditTrail*(std::string_view sandbox_id)>;
  explicit VaultAudit(FindTrail find_trail = {}) : find_trail_(std::move(find_trail)) {}

  struct Request {
    std::string_view sandbox_id;
    std::string_view host;
    std::string_view method;
    std::string_view request_id = {};
    int status_code = 0;  // of the answer that the sandbox got; 0: none
    std::chrono::steady_clock::duration took{};
  };
  // A request that was judged. Requests without a match are counted, not written.
  void request(const Request& request, const vault::Decision& decision);

  struct Mutation {
    std::string_view sandbox_id;
    std::string_view operation;      // create, runtime_add, runtime_replace or runtime_delete
    std::string_view bindings = {};  // names, with commas
    std::string_view source_type = "inline";
    std::string_view request_id = {};
    std::uint64_t revision = 0;  // after the change, or in force if it failed
    int status_code = 0;
    std::chrono::steady_clock::duration took{};
  };
  void mutation(const Mutation& mutation);

  // Once per request that changes a vault, whatever number of lines it has.
  void count_mutation(bool succeeded) { metrics_.count_mutation(succeeded); }

  const VaultMetrics& metrics() const { return metrics_; }

 private:
  void write(std::string_view event, std::string_view sandbox_id, LogFields fields);

  FindTrail find_trail_;
  VaultMetrics metrics_;
};

}  // namespace osb::egress
