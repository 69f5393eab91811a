#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "async/net.h"
#include "base/clock.h"
#include "base/error.h"
#include "http/client.h"
#include "kubernetes/access.h"
#include "kubernetes/cluster_config.h"
#include "kubernetes/object.h"
#include "kubernetes/pacing.h"
#include "kubernetes/resource.h"
#include "kubernetes/watch.h"

namespace osb::kubernetes {

struct ClientOptions {
  // Limits of our own, before the server's; zero: none.
  double read_qps = 0, write_qps = 0;
  int read_burst = 0, write_burst = 0;
  std::chrono::milliseconds timeout{30'000};  // request sent -> head of the answer
  int repeats = 8;                            // of a request which the server asks to send again later
  std::string user_agent = "opensandbox";
  const Clock* clock = &system_clock();
  Sleep sleep = real_sleep();
};

// One object, or one of its subresources.
struct Ref {
  Resource resource;
  Key key;
  std::string subresource = {};
};

struct ListOptions {
  std::string labels = {}, fields = {};  // selectors
  std::string version = {};              // "0": from the server's cache, which may be a little behind
  int limit = 0;                         // of items in this answer; zero: all
  std::string next = {};                 // List::next of the answer before
};

struct List {
  std::vector<ObjectPtr> items;  // with apiVersion and kind, which the server leaves out in lists
  std::string version;
  std::string next;  // not empty: there are more
};

struct WatchOptions {
  std::string labels = {}, fields = {};
  std::string version = {};            // events behind it; empty: every object as Added first
  std::chrono::seconds duration{290};  // then the server ends the watch
};

struct DeleteOptions {
  std::optional<int> grace_seconds = {};
  std::string propagation = "Background";  // of owned objects: Background, Foreground or Orphan
  std::string uid = {}, version = {};      // conditions; empty: none
};

enum class PatchType { Merge, Strategic, Apply };
struct PatchOptions {
  std::string manager = {};  // Apply needs one
  bool force = false;        // Apply: takes fields over from other managers
};

// The API of one cluster. Refusals are errors with the server's reason (api_status.h); a server that cannot be reached
// is Code::Unavailable. Requests that the server puts off (429, or 5xx with Retry-After) are repeated when it says.
// Lives on one loop; arguments go by value.
class Client {
 public:
  static Result<std::unique_ptr<Client>> open(net::any_io_executor executor, ClusterConfig config,
                                              ClientOptions options = {});

  net::awaitable<Result<json::object>> get(Ref ref);
  net::awaitable<Result<List>> list(Resource resource, std::string ns, ListOptions options = {});
  net::awaitable<Result<std::unique_ptr<Watch>>> watch(Resource resource, std::string ns, WatchOptions options = {});
  // apiVersion and kind are filled in when they are missing; metadata.namespace follows `ns`.
  net::awaitable<Result<json::object>> create(Resource resource, std::string ns, json::object object);
  // Fails with a conflict if the object has another version than the one given in its metadata.
  net::awaitable<Result<json::object>> replace(Ref ref, json::object object);
  net::awaitable<Result<json::object>> patch(Ref ref, PatchType type, json::object patch, PatchOptions options = {});
  net::awaitable<Result<void>> remove(Ref ref, DeleteOptions options = {});

  // The scale subresource, of types that have one.
  net::awaitable<Result<int>> replicas(Resource resource, Key key);
  net::awaitable<Result<int>> set_replicas(Resource resource, Key key, int wanted);

  // A GET whose answer is no JSON, such as a log: the body as it comes.
  net::awaitable<Result<std::unique_ptr<http::BodySource>>> stream(std::string target);

  // The parts of a WebSocket: a connection of its own, and the headers that show who we are.
  struct Opened {
    std::unique_ptr<http::Transport> transport;
    std::string host;
    std::string target;
    http::Headers headers;
  };
  net::awaitable<Result<Opened>> open_connection(std::string target);

  const ClusterConfig& config() const { return access_.config(); }
  const Clock& clock() const { return *options_.clock; }
  net::awaitable<bool> sleep(std::chrono::nanoseconds time) { return options_.sleep(time); }
  // Closes idle connections.
  void forget_connections() { http_.clear(); }

 private:
  struct Call {
    std::string method = "GET";
    std::string target;
    std::string content_type = {};
    std::string body = {};
    std::chrono::milliseconds stall{60'000};
  };
  Client(net::any_io_executor executor, ClusterConfig config, ClientOptions options);
  net::awaitable<Result<http::ClientResponse>> send(Call call);
  net::awaitable<Result<http::ClientResponse>> attempt(const Call& call);
  net::awaitable<Result<json::object>> object(Call call);
  Failure unreachable(const Error& why) const;

  ClientOptions options_;
  Access access_;
  std::unique_ptr<http::Connector> connector_;
  http::Client http_;
  TokenBucket reads_, writes_;
  JitteredBackoff pauses_;
};

}  // namespace osb::kubernetes
