#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "controller/model/pod_facts.h"

namespace osb::controller {

// How a pool restarts the containers of a pod that comes back: the pool's annotation restart-config.
struct RestartConfig {
  std::vector<std::string> blacklist;  // containers that are left alone
  std::chrono::nanoseconds retry_interval = std::chrono::seconds(30);
  int max_retries = 3;
  std::vector<std::string> command = {"kill", "1"};

  // Fields that make no sense keep their defaults.
  static RestartConfig parse(std::string_view annotation);
};

// A restart that has begun: the pod's annotation restart-record.
struct RestartRecord {
  std::string id = {};                                 // the claim of the use that ended
  std::string start_time = {};                         // RFC 3339
  std::map<std::string, std::string> containers = {};  // name to ID of those that have to be replaced
  std::string last_retry_time = {};
  int retry_count = 0;

  static std::optional<RestartRecord> parse(std::string_view annotation);
  std::string to_json() const;
};

// The next step of a restart.
struct RestartStep {
  enum class Do { Kill, Wait, Done, Delete } what;
  RestartRecord record = {};                 // Kill: write it first
  std::vector<std::string> containers = {};  // Kill: run the command in these
  std::chrono::nanoseconds wait{};           // Wait, and after Kill
};
RestartStep plan_restart(const PodFacts& pod, const RestartConfig& config, Timestamp now);

}  // namespace osb::controller
