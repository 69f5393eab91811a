#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "async/timer.h"
#include "base/clock.h"
#include "http/message.h"
#include "http/server.h"
#include "http/url.h"
#include "http/websocket.h"
#include "kubernetes/cluster_config.h"
#include "kubernetes/selector.h"
#include "kubernetes/testing/object_store.h"

namespace osb::kubernetes::testing {

// A small API server on a loopback port, for tests: get, list in pages, watch with bookmarks and 410, create, replace,
// patches of all types, delete, status and scale, owners and finalizers, and streams of pods. It keeps objects in
// memory and runs nothing. Suites that run against it can run against a real cluster too (cluster_fixture.h).
class ApiServer {
 public:
  explicit ApiServer(net::io_context& io, http::ServerOptions options = {}, const Clock& clock = system_clock());
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  ClusterConfig config() const;
  const http::Address& address() const { return address_; }
  ObjectStore& store() { return store_; }
  const StoredType& type(const Resource& resource) const;

  // Asked before each request: an answer of its own instead of the server's.
  std::function<std::optional<http::Response>(const http::Request&)> intercept;
  // Asked behind each request for objects: true loses the answer of a request that was carried out.
  std::function<bool(const http::Request&)> loses_answer;
  std::vector<std::string> requests;  // "GET /api/v1/pods?limit=500", oldest first

  // Watches. Each call acts on those that are open now.
  void end_watches();    // as the server does every few minutes
  void break_watches();  // as a server does that is killed
  void send_bookmarks();
  // Forgets older versions: watches and lists that go on from them get a 410.
  void compact();
  bool hold_events = false;  // a slow server: events wait until release_events()
  void release_events();
  std::size_t open_watches() const { return open_watches_; }
  net::awaitable<bool> wait_watches(std::size_t count);
  net::awaitable<bool> wait_bookmarks(std::size_t sent);

  std::map<Key, std::string> logs;
  bool follow_logs = false;  // a followed log does not end by itself
  // A command in a pod: takes the rest of the stream and returns the exit code.
  class ExecPeer {
   public:
    explicit ExecPeer(http::WebSocket& socket) : socket_(socket) {}
    net::awaitable<void> write(char channel, std::string text);
    net::awaitable<Result<std::string>> read_stdin();

   private:
    http::WebSocket& socket_;
  };
  std::function<net::awaitable<int>(std::vector<std::string> command, ExecPeer& peer)> exec;

 private:
  struct Place;
  struct Selection;
  net::awaitable<http::Response> handle(http::Request& request);
  net::awaitable<http::Response> object_request(http::Request& request, const Place& place, const http::Query& query);
  http::Response collection(const Place& place, const http::Query& query);
  http::Response page(std::vector<ObjectPtr> items, std::string version, std::size_t limit, const StoredType& type);
  http::Response watch(const Place& place, const http::Query& query);
  net::awaitable<Result<void>> send_events(std::shared_ptr<Selection> selection, http::BodyWriter& out);
  http::Response patch(const Place& place, const http::Query& query, std::string_view media, const json::object& body);
  http::Response scale(const Place& place, const std::string& method, const json::object& body);
  http::Response remove_all(const Place& place, const http::Query& query);
  http::Response pod_log(const Place& place, const http::Query& query);
  http::Response pod_exec(http::Request& request, const http::Query& query);

  net::io_context& io_;
  const Clock& clock_;
  ObjectStore store_;
  Notifier changed_;
  int epoch_ = 0, break_epoch_ = 0, bookmark_ = 0;
  std::size_t open_watches_ = 0;
  std::size_t bookmarks_sent_ = 0;
  struct Rest {
    std::vector<ObjectPtr> items;
    std::string version;
  };
  std::map<std::string, Rest, std::less<>> pages_;
  std::unique_ptr<http::Server> server_;
  http::Address address_;
};

}  // namespace osb::kubernetes::testing
