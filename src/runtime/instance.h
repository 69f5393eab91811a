#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/lifecycle_create.h"
#include "base/time.h"

namespace osb::runtime {

// How the server reaches one port of a sandbox.
struct Route {
  std::string origin;  // where to connect, for Backend::connector(): "10.0.0.2:80", "unix:/run/a.sock"
  std::string path;    // in front of the request's path: "/proxy/8000" where execd passes the request on; else ""
};

// How clients reach one port of a sandbox.
struct ClientRoute {
  std::string endpoint;        // "host:port[/path]"; "" when clients need the server's proxy
  bool through_execd = false;  // execd is on the way, and asks for its token
};

// How the ports of one sandbox are reached. The backend makes one for each sandbox that it has located. Answers from
// memory: the proxy asks for every request.
class PortMap {
 public:
  virtual ~PortMap() = default;
  virtual Route route(std::uint16_t port) const = 0;
  virtual ClientRoute client_route(std::uint16_t port) const = 0;
};

enum class InstanceState {
  Creating,
  Running,  // execd has answered
  Pausing,  // asked for, and not over yet: backends that take their time
  Paused,
  Resuming,
  Ended,  // by itself: `reason`, `message` and `exit_code` say how
  Removing,
};

// The state of one sandbox as its backend reports it.
struct Instance {
  std::string id;
  InstanceState state = InstanceState::Creating;
  std::string reason;   // of Ended, a code: "OUT_OF_MEMORY", "HOST_RESTARTED"
  std::string message;  // while Creating the stage: "pulling 45%"; while Running or Paused why a change has failed
  std::optional<int> exit_code;
  std::optional<Timestamp> ended_at;
  std::string address;                   // an IP address, for people; "" when there is none
  std::shared_ptr<const PortMap> ports;  // null: the backend has not located it yet
  std::string execd_token;               // a secret
  std::string egress_token;              // of its policy API, a secret; "" when it has no policy
  api::StringMap identifiers;            // what the backend calls it: "containerId"
  std::string pool;                      // whose pod it has; "" when it was made for itself
  // The deadline that the backend keeps, which then counts more than the record's: another server may have moved it.
  std::optional<Timestamp> expires_at;

  // For a server that has no record of the sandbox: with opensandbox.io/id among the labels the server takes it over,
  // without that label it belongs to another program. A backend gives back only labels that were put on this very
  // sandbox, not those of its image.
  api::StringMap labels;
  std::optional<Timestamp> created_at;
  std::string image;                    // as the create named it; "" for a snapshot, or when it is unknown
  std::vector<std::string> entrypoint;  // as the create named it
};

struct ResourceUse {
  std::uint64_t cpu_usec = 0;
  std::uint64_t memory_bytes = 0, memory_peak_bytes = 0;
  std::optional<std::uint64_t> memory_limit_bytes;
  std::uint64_t pids = 0, disk_bytes = 0, oom_kills = 0;
};

}  // namespace osb::runtime
