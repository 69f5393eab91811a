#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "opensandbox/connection.h"

// The lifecycle API's objects. Unknown fields of answers are ignored, absent ones are empty.
namespace opensandbox {

using Timestamp = std::chrono::sys_time<std::chrono::microseconds>;

// RFC 3339 in UTC: 2025-01-02T03:04:05.120000Z.
std::string format_timestamp(Timestamp time);

// Sandbox states; others may come from other servers.
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
  std::string state = {};
  std::string reason = {};
  std::string message = {};
  std::optional<Timestamp> last_transition_at = {};
};

struct Platform {
  std::string os = {};    // linux, windows
  std::string arch = {};  // amd64, arm64
};

struct ImageAuth {
  std::string username = {};
  std::string password = {};
};

// Of a sandbox that was taken from a pool of the cluster.
struct Allocation {
  std::string mode = {};  // pool
  std::string pool_ref = {};
  std::string state = {};  // allocated
};

struct SandboxInfo {
  std::string id = {};
  Status status = {};
  std::string image = {};        // "" when made from a snapshot
  std::string snapshot_id = {};  // "" when made from an image
  std::string template_id = {};  // "" when made of anything else
  std::optional<Platform> platform = {};
  std::vector<std::string> entrypoint = {};
  std::optional<StringMap> metadata = {};
  StringMap extensions = {};  // the opensandbox.extensions.* ones of the create
  std::optional<Allocation> allocation = {};
  Timestamp created_at{};
  std::optional<Timestamp> expires_at = {};  // nothing: lives until killed
  std::string json = {};                     // the object as the server wrote it
};

struct NetworkRule {
  std::string action = {};      // allow or deny
  std::string target = {};      // a name, *.name, an address or a CIDR; "" only with ports: every address
  std::vector<int> ports = {};  // TCP ports of the addresses; empty: all ports and protocols. Not for names.
};

struct NetworkPolicy {
  std::string default_action = "deny";
  std::vector<NetworkRule> egress = {};
};

struct HostVolume {
  std::string path = {};
};
struct PvcVolume {
  std::string claim_name = {};
  std::optional<bool> create_if_not_exists = {};
  std::optional<bool> delete_on_sandbox_termination = {};
  std::string storage_class = {};
  std::string storage = {};
  std::vector<std::string> access_modes = {};
};
struct OssfsVolume {
  std::string bucket = {};
  std::string endpoint = {};
  std::string version = {};
  std::vector<std::string> options = {};
  std::string access_key_id = {};
  std::string access_key_secret = {};
};
struct Volume {
  std::string name = {};
  std::string mount_path = {};
  bool read_only = false;
  std::string sub_path = {};
  // Exactly one.
  std::optional<HostVolume> host = {};
  std::optional<PvcVolume> pvc = {};
  std::optional<OssfsVolume> ossfs = {};
};

// A program that execd runs without a shell.
struct PreStartHook {
  std::vector<std::string> command = {};
  std::optional<std::chrono::seconds> timeout = {};  // nothing: 60 s
};
struct PeriodicHook {
  std::string name = {};
  std::string schedule = {};  // "*/5 * * * *", "@hourly", "@every 30s"
  std::vector<std::string> command = {};
  std::optional<std::chrono::seconds> timeout = {};
};
struct ActiveProbe {
  int port = 0;
  std::string path = "/";
  std::optional<std::chrono::seconds> timeout = {};  // nothing: 2 s
};
struct IdlePolicy {
  std::optional<std::chrono::seconds> pause_after = {};  // nothing: paused only by request
  bool wake_on_access = true;
  std::optional<ActiveProbe> active_probe = {};
};
// docs/lifecycle-hooks.md
struct Lifecycle {
  std::optional<PreStartHook> pre_start = {};
  std::vector<PeriodicHook> periodic = {};
  std::optional<IdlePolicy> idle = {};
  std::optional<std::chrono::seconds> renew_on_access = {};  // each access moves the deadline so far from now
};

// How to wait for a sandbox.
struct ReadyOptions {
  std::chrono::milliseconds timeout{30'000};
  // Between two looks, where the server cannot tell by itself or there is a health check.
  std::chrono::milliseconds poll_interval{200};
  bool skip = false;  // do not wait at all
};

struct CreateOptions {
  // Exactly one of the three. A template brings the workload along: of the fields below only timeout (needed),
  // metadata, extensions and network_policy may be set then.
  std::string image = {};
  std::string snapshot_id = {};
  std::string template_id = {};

  std::optional<ImageAuth> image_auth = {};
  std::optional<std::chrono::seconds> timeout = std::chrono::seconds(600);  // nothing: lives until killed
  std::vector<std::string> entrypoint = {"tail", "-f", "/dev/null"};
  StringMap resource_limits = {{"cpu", "1"}, {"memory", "2Gi"}};
  StringMap resource_requests = {};
  StringMap env = {};
  StringMap metadata = {};
  StringMap extensions = {};
  std::optional<NetworkPolicy> network_policy = {};
  bool credential_proxy = false;
  bool secure_access = false;
  std::vector<Volume> volumes = {};
  std::optional<Platform> platform = {};
  Lifecycle lifecycle = {};
  // Makes a repeated create return the first one's sandbox; "" for none. Not in the published contract.
  std::string idempotency_key = {};

  ReadyOptions ready = {};
};

struct Page {
  int page = 1;
  int page_size = 20;
  int total_items = 0;
  int total_pages = 0;
  bool has_next_page = false;
};

struct ListOptions {
  std::vector<std::string> states = {};  // any of them
  StringMap metadata = {};               // all of them
  int page = 0;                          // from 1; 0 leaves it to the server
  int page_size = 0;
  // Only sandboxes whose id begins with this, or whose metadata "name" is this; "" for all. Not in the published
  // contract: servers that do not know it answer with all, so check each.
  std::string match = {};
};

struct SandboxList {
  std::vector<SandboxInfo> items = {};
  Page pagination = {};
  std::string json = {};
};

// nullopt deletes the key.
using MetadataPatch = std::map<std::string, std::optional<std::string>>;

// Where a port of a sandbox is reached.
struct Endpoint {
  std::string endpoint = {};  // host[:port][/path], no scheme, no slash at the end
  StringMap headers = {};     // to be sent with every request there
  std::string url = {};       // the same with the scheme of the configuration
  // For browsers: the port under a host name of its own, where pages have an origin of their own. Empty: the server has
  // none that this client reaches.
  std::string browser_url = {};
};

struct EndpointOptions {
  std::optional<bool> use_server_proxy = {};             // nothing: as configured
  std::optional<std::chrono::sys_seconds> expires = {};  // a signed endpoint, valid until then
};

struct Snapshot {
  std::string id = {};
  std::string sandbox_id = {};
  std::string name = {};
  Status status = {};  // Creating, Ready, Failed, Deleting
  Timestamp created_at{};
  std::string json = {};
};

struct SnapshotListOptions {
  std::string sandbox_id = {};
  std::string name = {};
  std::vector<std::string> states = {};
  int page = 0;
  int page_size = 0;
  std::string match = {};  // the beginning of the id, or the name; see ListOptions::match
};

struct SnapshotList {
  std::vector<Snapshot> items = {};
  Page pagination = {};
  std::string json = {};
};

// /v1/images of servers that have an image store of their own (native backend); others answer with an Api error.
struct Image {
  std::string uri = {};
  std::string digest = {};
  std::optional<Platform> platform = {};
  std::optional<std::uint64_t> size_bytes = {};
  std::optional<Timestamp> created_at = {};
  std::string json = {};
};

struct PullProgress {
  std::string phase = {};  // resolve, download, unpack
  std::string layer = {};  // "" where it is about none
  std::uint64_t current_bytes = 0;
  std::optional<std::uint64_t> total_bytes = {};
};

struct PullOptions {
  std::string image = {};
  std::optional<ImageAuth> auth = {};
  std::optional<Platform> platform = {};
};

// GET .../diagnostics/{logs,events}?scope=.
struct Diagnostics {
  std::string sandbox_id = {};
  std::string kind = {};  // logs, events
  std::string scope = {};
  std::string delivery = {};  // inline, or url: then `content_url` is where the content is
  std::string content_type = {};
  bool truncated = false;
  std::string content = {};
  std::string content_url = {};
  std::optional<std::uint64_t> content_length = {};
  std::optional<Timestamp> expires_at = {};
  std::vector<std::string> warnings = {};
  std::string json = {};
};

// GET .../diagnostics/context: what the backend calls the sandbox.
struct DiagnosticContext {
  std::string sandbox_id = {};
  std::string backend_type = {};
  StringMap backend_identifiers = {};
  std::string state = {};  // "" where the server does not say
  std::string json = {};
};

// Output of an entrypoint: a line with its newline, or a part of a line that the next piece continues. Any bytes, as
// they were written.
struct LogOutput {
  std::string time = {};  // RFC 3339, when the line began; empty when not known
  std::string text = {};
};

struct LogOptions {
  std::optional<int> tail = {};  // begin with the last lines; nothing: with all that is kept
  std::string since = {};        // only what is younger: "90s", "15m", "2h", "1d"; empty: no limit
  bool follow = true;            // go on until the entrypoint has ended; false: until all there is was sent
};

// How a log ended.
struct LogEnd {
  std::string state = {};   // of the sandbox; empty: the handler had enough
  std::string reason = {};  // of one that has ended
  std::optional<int> exit_code = {};
};

// The answer of GET /metrics of execd.
struct Metrics {
  double cpu_count = 0;
  double cpu_used_pct = 0;
  double mem_total_mib = 0;
  double mem_used_mib = 0;
  std::int64_t timestamp = 0;  // unix ms
  std::string json = {};
};

}  // namespace opensandbox
