#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "api/network_policy.h"
#include "base/error.h"
#include "base/time.h"

// Messages between the server and sandboxd over the Unix socket (docs/sandboxd.md lists the routes). An internal API:
// no published client uses it. Field names are those of the structs, but for networkPolicy and egressToken.
namespace osb::api::native {

enum class NetworkMode { Bridge, None, Host };
enum class PullPolicy { Missing, Always, Never };
enum class VolumeKind { Host, Named, Tmpfs };

struct Volume {
  VolumeKind kind = VolumeKind::Host;
  std::string source = {};    // Host: an absolute path. Named: the name. Tmpfs: empty.
  std::string sub_path = {};  // below the source, relative; may be empty
  std::string target = {};    // absolute path inside the sandbox
  bool read_only = false;
  // Make what is missing. Host: directories of the path (root's, 0755), never above an allowed path. Named: the volume.
  // Both: the sub-path.
  bool create = false;
  bool delete_with_sandbox = false;              // Named: only if this request created it
  std::optional<std::uint64_t> size_bytes = {};  // Tmpfs; absent or 0: 64 MiB

  bool operator==(const Volume&) const = default;
};

struct Limits {
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> cpu_millis;
  std::optional<std::uint64_t> pids;
  std::optional<std::uint64_t> disk_bytes;
  std::optional<std::uint64_t> shm_bytes;
  std::optional<std::uint64_t> io_bytes_per_second;          // reads and writes, each, where the four below are absent
  std::optional<std::uint64_t> io_read_bps, io_write_bps;    // bytes per second
  std::optional<std::uint64_t> io_read_iops, io_write_iops;  // operations per second
  std::optional<std::uint64_t> network_receive_bps, network_send_bps;  // bytes per second; seen from the sandbox

  bool limits_io() const { return io_bytes_per_second || io_read_bps || io_write_bps || io_read_iops || io_write_iops; }
  bool operator==(const Limits&) const = default;
};

struct PublishedPort {
  std::uint16_t port = 0;       // inside
  std::uint16_t host_port = 0;  // 0 in a request: sandboxd picks one
  std::string protocol = "tcp";

  bool operator==(const PublishedPort&) const = default;
};

struct RegistryLogin {
  std::string username, password;
};

// An id is 1 to 64 characters of a-z, 0-9 and '-', and does not begin with '-'.
bool is_valid_id(std::string_view id);

struct CreateSandbox {
  std::string id;
  // One of the two. `image` is a reference or "host".
  std::string image;
  std::string snapshot;
  PullPolicy pull = PullPolicy::Missing;
  std::optional<RegistryLogin> login;
  std::string platform;  // "" is the host's

  std::vector<std::string> entrypoint;            // empty: the image's
  std::vector<std::string> requested_entrypoint;  // as the server's client wrote it; kept and given back
  std::map<std::string, std::string> env;
  std::string user;      // "name", "1000", "1000:1000"; empty: the image's
  std::string cwd;       // empty: the image's
  std::string hostname;  // empty: the id's first 12 characters

  Limits limits;
  std::map<std::string, std::uint64_t> ulimits;  // "nofile": soft and hard
  std::vector<Volume> volumes;

  NetworkMode network = NetworkMode::Bridge;
  std::vector<PublishedPort> ports;
  std::vector<std::string> dns;  // empty: the host's

  bool no_new_privileges = true;
  bool nested_user_namespaces = false;
  bool isolated_sessions = false;  // execd may ask sandboxd for sessions in namespaces of their own
  bool read_only_root = false;
  // "native" is ours; else the name of an OCI runtime of sandboxd's configuration; "" is the one it has as the default.
  std::string runtime;
  std::string gpus;  // "", "all" or a number

  // The token that execd will ask for, 16 to 128 letters and digits; empty: sandboxd makes one. A secret, like `login`.
  std::string execd_token;

  // Nothing: the sandbox reaches everything but the host and other sandboxes. With a policy, `egress_token` is the
  // secret that requests to its policy API carry, 16 to 128 letters, digits, '-' and '_'; empty: sandboxd makes one.
  std::optional<NetworkPolicy> network_policy;
  std::string egress_token;
  bool audit_policy = false;  // traffic passes and is recorded: only the operator's deny rules hold
  // Connections to ports 80 and 443 are intercepted, so that a credential vault can put secrets into requests. Needs a
  // policy.
  bool credential_proxy = false;

  std::map<std::string, std::string> labels;  // the server's; kept and given back
};

enum class State {
  Creating,  // the image is fetched, or the sandbox is being built
  Running,   // execd has answered
  Paused,
  Exited,  // its entrypoint or PID 1 has ended; `exit` says how
  Failed,  // could not be created; `reason` and `message` say why
  Removing,
};
std::string_view to_string(State state);

struct Exit {
  int code = 0;    // as a shell reports it: 128 + signal when signalled
  int signal = 0;  // 0: it ended by itself
  bool out_of_memory = false;

  bool operator==(const Exit&) const = default;
};

struct SandboxStatus {
  std::string id;
  State state = State::Creating;
  std::string reason;   // of Failed and Exited, a code: "NATIVE::SANDBOX_IMAGE_PULL_FAILED", "OUT_OF_MEMORY"
  std::string message;  // for people; while Creating the stage: "pulling 45%", "starting"
  std::optional<Exit> exit;
  std::string image;
  std::string snapshot;
  Timestamp created_at{};
  std::optional<Timestamp> started_at;  // PID 1 has been executed
  std::optional<Timestamp> ended_at;
  NetworkMode network = NetworkMode::Bridge;
  std::string address;  // of the sandbox, seen from the host; empty without a network
  std::vector<PublishedPort> ports;
  std::string execd_socket;  // a Unix socket on the host that execd serves; empty with an OCI runtime: address:44772
  std::string execd_token;   // what execd asks for
  std::string egress_token;  // of its policy API; empty: it was made without a policy
  std::int64_t pid = 0;      // of execd, on the host
  std::vector<std::string> requested_entrypoint;
  std::map<std::string, std::string> labels;
};

struct Stats {
  std::uint64_t cpu_usec = 0;
  std::uint64_t memory_bytes = 0, memory_peak_bytes = 0;
  std::optional<std::uint64_t> memory_limit_bytes;
  std::uint64_t pids = 0;
  std::uint64_t io_read_bytes = 0, io_write_bytes = 0;
  std::uint64_t oom_kills = 0;
  std::uint64_t disk_bytes = 0;  // of the sandbox's own layer; at least so many where it has very many files
};

struct Snapshot {
  std::string id;
  std::string sandbox;
  std::string image;
  std::uint64_t bytes = 0;
  Timestamp created_at{};
};

struct Image {
  std::string name;
  std::string digest;
  std::uint64_t bytes = 0;
  Timestamp created_at{};
  bool in_use = false;
};

// Decoders are strict: a field of the wrong type, an unknown enumerator or a missing required field is
// Code::InvalidRequest with its JSON pointer. Unknown fields are ignored, so that the two ends may differ in age. An
// older version kept `requested_entrypoint` as JSON in a label: it is moved to its field.
Result<CreateSandbox> decode_create_sandbox(const boost::json::value& value);
Result<SandboxStatus> decode_sandbox(const boost::json::value& value);
Result<Stats> decode_stats(const boost::json::value& value);
Result<Snapshot> decode_snapshot(const boost::json::value& value);
Result<Image> decode_image(const boost::json::value& value);

// `login`, `execd_token` and `egress_token` are left out of encode(CreateSandbox) unless asked for: records
// and logs must not hold them.
enum class Secrets { Leave, Include };
boost::json::value encode(const CreateSandbox& create, Secrets secrets = Secrets::Leave);
boost::json::value encode(const SandboxStatus& sandbox);
boost::json::value encode(const Stats& stats);
boost::json::value encode(const Snapshot& snapshot);
boost::json::value encode(const Image& image);

}  // namespace osb::api::native
