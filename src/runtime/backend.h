#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/lifecycle_create.h"
#include "api/lifecycle_image.h"
#include "async/net.h"
#include "base/error.h"
#include "base/time.h"
#include "base/timed_log.h"
#include "http/body.h"
#include "http/client.h"

namespace osb::runtime {

// What a backend can do. A text says why not; "" means it can.
struct Capabilities {
  std::string name = "NATIVE";         // prefix of its codes
  std::string daemon = "the backend";  // what people call the program behind it
  bool kubernetes_quantities = false;
  bool pools = false;
  bool pause = false;
  bool snapshots = false;
  bool images = false;
  bool signed_routes = false;
  bool endpoints = false;  // clients reach its endpoints wherever they reach the server
  bool log_times = false;  // every line of logs() begins with an RFC 3339 time and a space
  std::string no_network_policy;
  std::string no_credential_proxy;
  std::string no_secure_access;
  std::string no_windows;
};

// A sandbox to make. The id is the server's and so is the token that execd will ask for: both are known before the
// backend has heard of them.
struct SandboxSpec {
  std::string id;
  std::shared_ptr<const api::CreateSandbox> create;  // checked by api::check_create()
  std::string execd_token;
  // What the sandbox carries and Instance::labels gives back, in the contract's form: the user's metadata, and names
  // below opensandbox.io/ (runtime/labels.h). A backend may add names of its own.
  api::StringMap labels = {};
};

enum class InstanceState {
  Creating,
  Running,  // execd has answered
  Paused,
  Ended,  // by itself: `reason`, `message` and `exit_code` say how
  Removing,
};

// What a backend knows about one sandbox.
struct Instance {
  std::string id;
  InstanceState state = InstanceState::Creating;
  std::string reason;   // of Ended, a code: "OUT_OF_MEMORY", "HOST_RESTARTED"
  std::string message;  // while Creating the stage: "pulling 45%"
  std::optional<int> exit_code;
  std::optional<Timestamp> ended_at;
  std::string address;       // an IP address that this host reaches; "" when there is none
  std::string execd_token;   // a secret
  std::string execd_socket;  // a Unix socket of this host where execd answers; "" when there is none
  std::uint16_t execd_host_port = 0, http_host_port = 0;  // of the host, leading to 44772 and 8080; 0: none

  // For a server that has no record of it: with opensandbox.io/id among the labels it is taken over, without it is
  // somebody else's and left alone. A backend gives back only labels that were put on this very sandbox, not those
  // that an image brought along.
  api::StringMap labels;
  std::optional<Timestamp> created_at;
  std::string image;                    // as it was asked for; "" when it came from a snapshot, or nobody knows
  std::vector<std::string> entrypoint;  // as it was asked for
};

struct ResourceUse {
  std::uint64_t cpu_usec = 0;
  std::uint64_t memory_bytes = 0, memory_peak_bytes = 0;
  std::optional<std::uint64_t> memory_limit_bytes;
  std::uint64_t pids = 0, disk_bytes = 0, oom_kills = 0;
};

// Who hears what happens in a backend. Called on the loop, in order; must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  // Everything there is: at the beginning, and again whenever changes may have been missed.
  virtual void on_all(std::vector<Instance> instances) = 0;
  virtual void on_change(Instance instance) = 0;
  virtual void on_removed(std::string id) = 0;
  // The backend cannot be heard; on_all() follows when it can.
  virtual void on_lost(const Error& why) = 0;
};

// Which part of an entrypoint's output is wanted.
struct LogsFrom {
  std::optional<Timestamp> since = {};
  std::optional<std::size_t> tail = {};  // the last lines; with `since` whatever is less
  bool follow = false;                   // also what comes, until the entrypoint has ended
};

// Output of an entrypoint, pulled: what nobody asks for stays where it is kept.
class LogStream {
 public:
  virtual ~LogStream() = default;
  // What comes next; empty when there will be nothing more. A sandbox that is removed and a backend that is lost are
  // errors.
  virtual net::awaitable<Result<std::vector<LogPiece>>> next() = 0;
};

// Where sandboxes are made: one host, an engine, a cluster. Lives on one loop. Coroutines take their arguments by
// value; the backend outlives them. A backend that cannot be reached is Code::Unavailable; what it refuses carries its
// own code in Error::reason.
class Backend {
 public:
  virtual ~Backend() = default;
  // Ends what it does in the background; awaited before it goes.
  virtual net::awaitable<void> close() { co_return; }
  virtual Capabilities capabilities() const = 0;  // asked first

  // What only this backend can check, before anything is recorded.
  virtual Result<void> check(const api::CreateSandbox& create) const = 0;
  // The same for volumes, where somebody has to be asked. Changes nothing; asked only when there are some. `create`
  // outlives it. A backend that does not answer is no failure: the create will find out.
  virtual net::awaitable<Result<void>> check_volumes(const api::CreateSandbox&) { co_return Result<void>(); }

  // Returns when execd has answered; whatever fails leaves nothing behind. Code::Conflict: the id exists.
  virtual net::awaitable<Result<Instance>> create(SandboxSpec spec) = 0;
  virtual net::awaitable<Result<Instance>> inspect(std::string id) = 0;  // Code::NotFound
  virtual net::awaitable<Result<std::vector<Instance>>> list() = 0;
  // Tells the observer, which outlives it, until it is cancelled.
  virtual net::awaitable<void> watch(Observer& observer) = 0;
  // Makes watch() look at once whether a backend that is away is back, and tell the observer either way.
  virtual void look_again() {}

  virtual net::awaitable<Result<void>> pause(std::string id) = 0;   // one that is paused: success
  virtual net::awaitable<Result<void>> resume(std::string id) = 0;  // one that runs: success
  // An unknown id is success: expiry, retries and restarts race. Ends a create that is under way.
  virtual net::awaitable<Result<void>> remove(std::string id) = 0;

  // Where a port of a sandbox answers, for a client that uses connector(). No question is asked: this is on the path
  // of every proxied request.
  virtual std::string origin(const Instance& instance, std::uint16_t port) const = 0;
  // What the origin wants in front of the path: "/proxy/8000" where a port is reached through execd.
  virtual std::string origin_path(const Instance&, std::uint16_t) const { return ""; }
  // What clients are given for a port, "host:port[/path]"; "" when they need the server's proxy. Asks nothing either.
  virtual std::string endpoint(const Instance& instance, std::uint16_t port) const {
    return instance.address.empty() ? "" : instance.address + ":" + std::to_string(port);
  }
  // Whether execd, and with it its token, is on the way of that endpoint.
  virtual bool through_execd(const Instance&, std::uint16_t port) const { return port == 44772; }
  virtual std::unique_ptr<http::Connector> connector() = 0;

  virtual net::awaitable<Result<ResourceUse>> stats(std::string id) = 0;
  // The last `bytes` of what the entrypoint has written.
  virtual net::awaitable<Result<std::string>> logs(std::string id, std::size_t bytes) = 0;
  virtual net::awaitable<Result<std::unique_ptr<LogStream>>> open_logs(std::string id, LogsFrom from) = 0;

  virtual net::awaitable<Result<void>> create_snapshot(std::string sandbox, std::string snapshot) = 0;
  virtual net::awaitable<Result<bool>> has_snapshot(std::string snapshot) = 0;
  // One that is missing: success. Code::Conflict: a sandbox stands on it.
  virtual net::awaitable<Result<void>> remove_snapshot(std::string snapshot) = 0;
  // The snapshot as an OCI archive. Code::Unsupported where a backend, or this one snapshot, has no such form.
  virtual net::awaitable<Result<std::shared_ptr<http::BodySource>>> export_snapshot(std::string) {
    co_return fail(Code::Unsupported, "this backend does not export snapshots");
  }

  // Images of a backend that keeps its own (Capabilities::images).
  virtual net::awaitable<Result<std::vector<api::StoredImage>>> list_images() = 0;
  // `progress` is called on the loop until the image is there.
  virtual net::awaitable<Result<api::StoredImage>> pull_image(
      api::PullImage image, std::function<void(const api::PullProgress&)> progress) = 0;
  // A `docker save` or OCI archive; `name` replaces the names in it unless "".
  virtual net::awaitable<Result<std::vector<api::StoredImage>>> load_image(std::shared_ptr<http::BodySource> archive,
                                                                           std::string name) = 0;
  virtual net::awaitable<Result<void>> remove_image(std::string name, bool force) = 0;
};

}  // namespace osb::runtime
