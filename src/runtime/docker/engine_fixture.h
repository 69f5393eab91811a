#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include "async/timer.h"
#include "http/router.h"
#include "http/server.h"
#include "http/url.h"
#include "runtime/docker/engine_json.h"
#include "support/await.h"
#include "support/temp_dir.h"

namespace osb::runtime::testing {

namespace json = boost::json;

// An engine in memory on a real Unix socket, for what a real one cannot be made to do at a given moment: a port that is
// taken in between, a stream that breaks, an image that goes away. Its containers consist of an execd that answers.
class FakeEngine {
 public:
  struct FakeContainer {
    json::value body;
    std::string status = "created";
    int exit_code = 0;
    std::string put;  // the archive that was put into it last
    std::unique_ptr<http::Server> execd;
  };

  explicit FakeEngine(net::io_context& io) : changed(io.get_executor()), io_(io), server_(make_server()) {
    EXPECT_TRUE(server_->listen(http::Address::unix_socket(socket())));
  }
  // Also by TCP; the port.
  std::uint16_t listen_tcp() { return server_->listen(http::Address::tcp("127.0.0.1", 0))->port; }

  ~FakeEngine() {
    stop_events();
    osb::testing::await(io_, stop());
  }

  std::string socket() const { return (directory_ / "engine.sock").string(); }

  std::string api_version = "1.41";
  std::string product = "Engine";
  std::map<std::string, FakeContainer> containers;  // by name
  std::map<std::string, std::string> images;        // name to architecture
  std::map<std::string, std::string> pullable;
  std::map<std::string, json::object> volumes;   // name to labels
  std::map<std::string, json::object> networks;  // name to the body that made it
  std::vector<std::string> calls;                // "POST /containers/x/start"
  std::vector<std::string> refuse_create;        // messages for the next ones
  std::vector<std::string> refuse_start;         // the same for starts
  std::vector<std::string> refuse_inspect;       // the same for looks at containers
  std::vector<std::string> log;                  // frames of every container's output; a follower gets the first
  int lost_commits = 0;                          // so many freeze their container and answer 503
  bool hold_pulls = false, execd_answers = true, sidecar_answers = true;
  std::vector<std::string> refuse_pause;  // messages for the next ones
  std::function<net::awaitable<void>()> before_ping = [] -> net::awaitable<void> { co_return; };
  Notifier changed;  // after every call
  int streams = 0, clashes = 0;

  int count(const std::string& call) const { return static_cast<int>(std::ranges::count(calls, call)); }

  void say(const std::string& action, const std::string& sandbox, const std::string& exit_code = "0") {
    events_.push_back(json::serialize(
        json::object{{"Type", "container"},
                     {"Action", action},
                     {"timeNano", 1'700'000'000'000'000'000 + static_cast<std::int64_t>(events_.size())},
                     {"Actor", json::object{{"ID", "c-sandbox-" + sandbox},
                                            {"Attributes", json::object{{"name", "sandbox-" + sandbox},
                                                                        {"opensandbox.io/id", sandbox},
                                                                        {"exitCode", exit_code}}}}}}));
    changed.notify_all();
  }
  void remove_network(const std::string& name) {
    networks.erase(name);
    events_.push_back(json::serialize(
        json::object{{"Type", "network"}, {"Action", "destroy"}, {"Actor", json::object{{"ID", "n-" + name}}}}));
    changed.notify_all();
  }
  net::awaitable<void> kill_sidecar(std::string sandbox) {
    FakeContainer& container = containers.at("sandbox-egress-" + sandbox);
    container.status = "exited";
    const auto server = std::move(container.execd);
    if (server) co_await server->stop(std::chrono::milliseconds(0));
    events_.push_back(json::serialize(json::object{
        {"Type", "container"},
        {"Action", "die"},
        {"Actor", json::object{{"ID", "c-sandbox-egress-" + sandbox},
                               {"Attributes", json::object{{"name", "sandbox-egress-" + sandbox},
                                                           {"opensandbox.io/egress-sidecar-for", sandbox}}}}}}));
    changed.notify_all();
  }
  void end(const std::string& sandbox, int code) {
    FakeContainer& container = containers.at("sandbox-" + sandbox);
    container.status = "exited";
    container.exit_code = code;
    say("die", sandbox, std::to_string(code));
  }
  // Breaks the streams that are open.
  void stop_events() {
    ++epoch_;
    changed.notify_all();
  }

 private:
  using Request = http::Request;
  using Response = http::Response;
  using Answer = net::awaitable<Response>;

  std::unique_ptr<http::Server> make_server() {
    return std::make_unique<http::Server>(io_.get_executor(), [this](Request& request) { return handle(request); });
  }
  net::awaitable<void> stop() {
    for (auto& [name, container] : containers) {
      if (container.execd) co_await container.execd->stop(std::chrono::milliseconds(0));
    }
    co_await server_->stop(std::chrono::milliseconds(0));
  }

  static Response message(int status, const std::string& text) {
    return http::json_response(status, json::serialize(json::object{{"message", text}}));
  }
  static Response answer(json::object value, int status = 200) {
    return http::json_response(status, json::serialize(value));
  }

  Answer handle(Request& request) {
    auto body = co_await request.body->read_all(1 << 20);
    std::string path = *http::percent_decode(request.path());
    if (path.starts_with("/v1.")) path.erase(0, path.find('/', 1));
    calls.push_back(request.method + " " + path);
    Response response = co_await dispatch(request, path, body ? *body : "");
    changed.notify_all();
    co_return response;
  }

  Answer dispatch(Request& request, const std::string& path, const std::string& body) {
    if (path == "/version") {
      json::array components;
      components.emplace_back(json::object{{"Name", product}});
      co_return answer({{"ApiVersion", api_version}, {"Version", "9"}, {"Components", std::move(components)}});
    }
    if (path == "/info") {
      co_return answer({{"OSType", "linux"},
                        {"Architecture", "x86_64"},
                        {"Name", "another machine"},
                        {"Runtimes", json::object{{"runc", json::object()}}}});
    }
    if (path == "/events") co_return events();
    if (path == "/images/create") co_return co_await pull(http::Query::parse(request.query()));
    if (path.starts_with("/images/")) co_return image(path.substr(8, path.rfind("/json") - 8));
    if (path == "/volumes/create") {
      const std::string name = engine::text(json::parse(body), {"Name"});
      const json::value wanted = json::parse(body);
      if (const json::value* labels = engine::find(wanted, {"Labels"})) volumes[name] = labels->as_object();
      co_return described(name, 201);
    }
    if (path.starts_with("/volumes/")) co_return volume(request.method, path.substr(9));
    if (path.starts_with("/networks")) co_return network(request.method, path, body);
    if (path == "/commit") co_return commit(http::Query::parse(request.query()));
    if (path == "/containers/json") co_return list();
    if (path == "/containers/create")
      co_return create(std::string(http::Query::parse(request.query()).get("name")), body);
    if (path.starts_with("/containers/")) {
      const std::string rest = path.substr(12);
      const std::string name = rest.substr(0, rest.find('/'));
      const auto found = containers.find(name);
      if (found == containers.end()) co_return message(404, "No such container: " + name);
      if (rest.ends_with("/logs")) co_return logs(http::Query::parse(request.query()));
      if (request.method == "PUT") found->second.put = body;
      co_return co_await container(request.method, name, rest.substr(name.size()), found->second);
    }
    co_return message(404, "page not found");
  }

  Response network(const std::string& method, const std::string& path, const std::string& body) {
    if (path == "/networks/create") {
      json::object wanted = json::parse(body).as_object();
      const std::string name(wanted.at("Name").as_string());
      if (networks.contains(name)) return message(409, "network with name " + name + " already exists");
      networks[name] = std::move(wanted);
      return answer({{"Id", "n-" + name}}, 201);
    }
    if (path == "/networks") {
      json::array all;
      for (const auto& [name, each] : networks) all.emplace_back(each);
      return http::json_response(200, json::serialize(all));
    }
    const std::string name = path.substr(std::string_view("/networks/").size());
    const auto found = networks.find(name);
    if (found == networks.end()) return message(404, "network " + name + " not found");
    if (method != "DELETE") return answer(found->second);
    networks.erase(found);
    return message(204, "");
  }

  Response events() {
    Response response;
    ++streams;
    response.body = http::StreamBody{[this](http::BodyWriter& out) -> net::awaitable<Result<void>> {
                                       std::size_t next = events_.size();
                                       const int epoch = epoch_;
                                       if (auto sent = co_await out.flush(); !sent) co_return sent;
                                       while (epoch == epoch_) {
                                         if (next == events_.size() && !co_await changed.wait()) break;
                                         for (; epoch == epoch_ && next < events_.size(); ++next) {
                                           if (auto sent = co_await out.write(events_[next] + "\n"); !sent)
                                             co_return sent;
                                         }
                                       }
                                       co_return Result<void>();
                                     },
                                     std::nullopt};
    return response;
  }

  // Never ends for a follower: engines forget to, now and then.
  Response logs(const http::Query& query) {
    Response response;
    response.body = http::StreamBody{[this, follow = query.get("follow") == "1", out = query.get("stdout") == "1"](
                                         http::BodyWriter& to) -> net::awaitable<Result<void>> {
                                       if (auto sent = co_await to.flush(); !sent) co_return sent;
                                       for (const std::string& frame : log) {
                                         if (!out) break;
                                         if (auto sent = co_await to.write(frame); !sent) co_return sent;
                                         if (follow) break;
                                       }
                                       const int epoch = epoch_;
                                       if (follow)
                                         (void)co_await changed.wait_until([this, epoch] { return epoch != epoch_; });
                                       co_return Result<void>();
                                     },
                                     std::nullopt};
    return response;
  }

  Answer pull(http::Query query) {
    std::string name(query.get("fromImage"));
    for (const std::string_view prefix : {"docker.io/", "library/"}) {
      if (name.starts_with(prefix)) name.erase(0, prefix.size());
    }
    Response response;
    response.body = http::StreamBody{
        [this, name](http::BodyWriter& out) -> net::awaitable<Result<void>> {
          (void)co_await out.write(R"({"status":"Downloading","id":"l1","progressDetail":{"current":45,"total":100}})"
                                   "\r\n");
          (void)co_await changed.wait_until([this] { return !hold_pulls; });
          const auto found = pullable.find(name);
          if (found == pullable.end()) {
            co_return co_await out.write(R"({"errorDetail":{"message":"unauthorized"},"error":"unauthorized"})"
                                         "\r\n");
          }
          images[name] = found->second;
          co_return co_await out.write(R"({"status":"done"})"
                                       "\r\n");
        },
        std::nullopt};
    co_return response;
  }

  Response image(const std::string& name) {
    const auto found = images.find(name);
    if (found == images.end()) return message(404, "No such image: " + name);
    return answer({{"Id", "sha256:" + name}, {"Os", "linux"}, {"Architecture", found->second}});
  }

  Response commit(http::Query query) {
    FakeContainer& source = containers.at(std::string(query.get("container")).substr(2));
    if (lost_commits > 0) {
      --lost_commits;
      source.status = "paused";
      return message(503, "busy");
    }
    images[std::string(query.get("repo")) + ":" + std::string(query.get("tag"))] = "amd64";
    return answer({{"Id", "sha256:1"}}, 201);
  }

  Response described(const std::string& name, int status = 200) {
    return answer({{"Name", name}, {"Driver", "local"}, {"Mountpoint", "/volumes/" + name}, {"Labels", volumes[name]}},
                  status);
  }

  Response volume(const std::string& method, const std::string& name) {
    if (!volumes.contains(name)) return message(404, "no such volume");
    if (method == "DELETE") {
      volumes.erase(name);
      return http::empty_response(204);
    }
    return described(name);
  }

  Response list() {
    json::array all;
    for (const auto& [name, container] : containers) {
      all.push_back(
          json::object{{"Id", "c-" + name},
                       {"Names", json::array{"/" + name}},
                       {"Labels", engine::string_map(container.body, {"Labels"}).empty() ? json::value(json::object())
                                                                                         : container.body.at("Labels")},
                       {"State", container.status}});
    }
    return http::json_response(200, json::serialize(all));
  }

  Response create(const std::string& name, const std::string& body) {
    if (!refuse_create.empty()) {
      const std::string why = refuse_create.front();
      refuse_create.erase(refuse_create.begin());
      return message(500, why);
    }
    if (containers.contains(name)) return message(409, "name " + name + " is in use");
    json::value value = json::parse(body);
    std::string image = engine::text(value, {"Image"});
    if (image.starts_with("sha256:")) image.erase(0, 7);
    if (!images.contains(image)) return message(404, "No such image: " + image);
    containers[name].body = std::move(value);
    return answer({{"Id", "c-" + name}, {"Warnings", json::array()}}, 201);
  }

  Answer container(const std::string& method, const std::string& name, const std::string& what, FakeContainer& it) {
    if (method == "DELETE") {
      auto execd = std::move(it.execd);
      containers.erase(name);
      if (execd) co_await execd->stop(std::chrono::milliseconds(0));
      co_return http::empty_response(204);
    }
    if (what == "/archive") co_return http::empty_response(200);  // every path exists
    if (what == "/json" && !refuse_inspect.empty()) {
      const std::string why = refuse_inspect.front();
      refuse_inspect.erase(refuse_inspect.begin());
      co_return message(500, why);
    }
    if (what == "/json") {
      co_return answer({{"Id", "c-" + name},
                        {"Config", it.body},
                        {"State", json::object{{"Status", it.status}, {"ExitCode", it.exit_code}}}});
    }
    if (what == "/pause" || what == "/unpause") {
      if (!refuse_pause.empty() && name.starts_with("sandbox-egress-")) {
        const std::string why = refuse_pause.front();
        refuse_pause.erase(refuse_pause.begin());
        co_return message(500, why);
      }
      const std::string wanted = what == "/pause" ? "paused" : "running";
      if (it.status == wanted) co_return message(409, "already " + wanted);
      it.status = wanted;
      co_return http::empty_response(204);
    }
    if (what != "/start") co_return message(404, "page not found");
    if (!refuse_start.empty()) {
      const std::string why = refuse_start.front();
      refuse_start.erase(refuse_start.begin());
      co_return message(500, why);
    }
    it.status = "running";
    const bool sidecar = name.starts_with("sandbox-egress-");
    std::string port = engine::text(it.body, {"Labels", "opensandbox.io/embedding-proxy-port"});
    if (sidecar) {
      const std::string joined = engine::text(it.body, {"HostConfig", "NetworkMode"});
      const auto owner = containers.find(joined.substr(std::string_view("container:c-").size()));
      if (owner == containers.end() || owner->second.status != "running") {
        co_return message(409, "cannot join network of a non running container");
      }
      const json::value* published = engine::find(owner->second.body, {"HostConfig", "PortBindings", "18080/tcp"});
      port = published == nullptr ? "0" : engine::text(published->as_array().front(), {"HostPort"});
    }
    it.execd = std::make_unique<http::Server>(io_.get_executor(), [this, sidecar](Request&) -> Answer {
      if (!sidecar) co_await before_ping();
      co_return http::empty_response((sidecar ? sidecar_answers : execd_answers) ? 200 : 503);
    });
    if (!it.execd->listen(http::Address::tcp("127.0.0.1", static_cast<std::uint16_t>(std::stoi(port))))) {
      // Another program on this machine has the port; a real engine says the same.
      ++clashes;
      it.status = "created";
      co_return message(500, "listen tcp 127.0.0.1:" + port + ": bind: address already in use");
    }
    co_return http::empty_response(204);
  }

  net::io_context& io_;
  osb::testing::TempDir directory_;
  std::vector<std::string> events_;
  int epoch_ = 0;
  std::unique_ptr<http::Server> server_;
};

}  // namespace osb::runtime::testing
