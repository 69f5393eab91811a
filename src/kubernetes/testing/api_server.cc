#include "kubernetes/testing/api_server.h"

#include <algorithm>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "async/race.h"
#include "base/id.h"
#include "base/parse_number.h"
#include "http/status.h"
#include "kubernetes/api_status.h"
#include "kubernetes/patch.h"
#include "kubernetes/testing/status_answer.h"

namespace osb::kubernetes::testing {

using http::Request;
using http::Response;

namespace {

constexpr std::size_t kMaxBody = 8 << 20;

std::vector<std::string> segments(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::size_t end = std::min(path.find('/'), path.size());
    out.push_back(http::percent_decode(path.substr(0, end)).value_or(""));
    path.remove_prefix(end);
  }
  return out;
}

}  // namespace

// The object or collection that a path names.
struct ApiServer::Place {
  const StoredType* type = nullptr;
  Key key;
  std::string subresource;

  static std::optional<Place> parse(const ObjectStore& store, std::string_view path) {
    std::vector<std::string> words = segments(path);
    const bool core = !words.empty() && words[0] == "api";
    const std::size_t head = core ? 2 : 3;
    if (words.size() <= head || (!core && words[0] != "apis")) return std::nullopt;
    const std::string group = core ? "" : words[1], version = core ? words[1] : words[2];
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(head));
    Place out;
    if (words[0] == "namespaces" && words.size() > 2) {
      out.key.ns = words[1];
      words.erase(words.begin(), words.begin() + 2);
    }
    out.type = store.find_type(group, version, words[0]);
    if (out.type == nullptr || words.size() > 3 || (!out.type->resource.namespaced && !out.key.ns.empty())) {
      return std::nullopt;
    }
    if (words.size() > 1) out.key.name = words[1];
    if (words.size() > 2) out.subresource = words[2];
    return out;
  }
};

struct ApiServer::Selection {
  const StoredType* type;
  std::string ns;
  LabelSelector labels;
  FieldSelector fields;
  std::uint64_t version = 0;
  std::optional<std::chrono::seconds> duration = {};
  bool bookmarks = false;

  bool holds(const ObjectPtr& object) const {
    return object && (ns.empty() || key_of(*object).ns == ns) && labels.matches(*object) && fields.matches(*object);
  }

  static Result<std::shared_ptr<Selection>> parse(const Place& place, const http::Query& query) {
    auto labels = LabelSelector::parse(query.get("labelSelector"));
    auto fields = FieldSelector::parse(query.get("fieldSelector"));
    if (!labels) return Failure(labels.error());
    if (!fields) return Failure(fields.error());
    Selection out{place.type, place.key.ns, std::move(*labels), std::move(*fields)};
    if (const auto seconds = parse_number<int>(query.get("timeoutSeconds"))) {
      out.duration = std::chrono::seconds(*seconds);
    }
    out.bookmarks = query.get("allowWatchBookmarks") == "true";
    return std::make_shared<Selection>(std::move(out));
  }
};

ApiServer::ApiServer(net::io_context& io, http::ServerOptions options, const Clock& clock)
    : io_(io), clock_(clock), store_(clock), changed_(io.get_executor()) {
  store_.on_change = [this] { changed_.notify_all(); };
  for (const Resource& each : {resources::kConfigMaps, resources::kSecrets, resources::kEvents, resources::kLeases,
                               resources::kRuntimeClasses}) {
    store_.add_type({each});
  }
  for (const Resource& each : {resources::kPods, resources::kClaims, resources::kNamespaces, resources::kJobs}) {
    store_.add_type({.resource = each, .status = true});
  }
  store_.add_type({.resource = resources::kDeployments, .status = true, .scale = true});
  server_ = std::make_unique<http::Server>(
      io.get_executor(), [this](Request& request) { return handle(request); }, std::move(options));
  address_ = server_->listen(http::Address::tcp("127.0.0.1", 0)).value();
}

ApiServer::~ApiServer() {
  end_watches();
  bool over = false;
  net::co_spawn(io_, server_->stop(std::chrono::milliseconds(0)), [&](std::exception_ptr) { over = true; });
  io_.restart();
  while (!over && io_.run_one() > 0) {
  }
}

ClusterConfig ApiServer::config() const {
  ClusterConfig out;
  out.server = "http://" + address_.to_string();
  out.origin = "the test's API server";
  return out;
}

const StoredType& ApiServer::type(const Resource& resource) const {
  return *store_.find_type(resource.group, resource.version, resource.plural);
}

net::awaitable<Response> ApiServer::handle(Request& request) {
  requests.push_back(request.method + " " + request.target);
  if (intercept) {
    if (auto answer = intercept(request)) co_return std::move(*answer);
  }
  if (request.path() == "/version")
    co_return object_answer({{"major", "1"}, {"minor", "20"}, {"gitVersion", "v1.20.2"}});
  const auto place = Place::parse(store_, request.path());
  if (!place) co_return http::text_response(404, "404 page not found\n");
  const http::Query query = http::Query::parse(request.query());
  if (place->subresource == "log") co_return pod_log(*place, query);
  if (place->subresource == "exec") co_return pod_exec(request, query);
  Response response = co_await object_request(request, *place, query);
  if (loses_answer && loses_answer(request)) co_return status_answer(500, "InternalError", "the answer was lost");
  co_return response;
}

net::awaitable<Response> ApiServer::object_request(Request& request, const Place& place, const http::Query& query) {
  const bool known = place.subresource.empty() || (place.subresource == "status" && place.type->status) ||
                     (place.subresource == "scale" && place.type->scale);
  if (!known) co_return http::text_response(404, "404 page not found\n");
  if (request.method == "GET" && place.key.name.empty()) {
    co_return query.get("watch") == "true" ? watch(place, query) : collection(place, query);
  }
  if (request.method == "GET" && place.subresource != "scale") {
    co_return answer_of(store_.get(*place.type, place.key));
  }
  const auto body = co_await request.body->read_all(kMaxBody);
  if (!body) co_return refusal(body.error());
  const auto parsed = body->empty() ? Result<json::value>(json::object()) : api::parse_json(*body);
  if (!parsed || !parsed->is_object()) co_return refusal(Error(Code::InvalidRequest, "the body is no object"));
  const json::object& object = parsed->get_object();
  if (place.subresource == "scale") co_return scale(place, request.method, object);
  const std::string manager(query.get("fieldManager"));
  if (request.method == "POST" && place.key.name.empty()) {
    co_return answer_of(store_.create(*place.type, place.key.ns, object, manager), 201);
  }
  if (request.method == "PUT") {
    co_return answer_of(store_.update(*place.type, place.key, object, place.subresource, manager));
  }
  if (request.method == "PATCH") co_return patch(place, query, request.headers.get("Content-Type"), object);
  if (request.method == "DELETE" && place.key.name.empty()) co_return remove_all(place, query);
  if (request.method == "DELETE") {
    co_return answer_of(store_.remove(*place.type, place.key, delete_options(object, query)));
  }
  co_return refusal(Error(Code::Unsupported, "the server does not allow this method on the requested resource"));
}

Response ApiServer::page(std::vector<ObjectPtr> items, std::string version, std::size_t limit, const StoredType& type) {
  json::object metadata{{"resourceVersion", version}};
  if (limit > 0 && items.size() > limit) {
    const std::string token = new_hex_id();
    pages_[token] = {{items.begin() + static_cast<std::ptrdiff_t>(limit), items.end()}, version};
    metadata["continue"] = token;
    items.resize(limit);
  }
  json::array out;
  for (const ObjectPtr& each : items) {
    json::object item = *each;
    item.erase("apiVersion");
    item.erase("kind");
    out.emplace_back(std::move(item));
  }
  return object_answer({{"apiVersion", type.resource.api_version()},
                        {"kind", type.resource.kind + "List"},
                        {"metadata", std::move(metadata)},
                        {"items", std::move(out)}});
}

Response ApiServer::collection(const Place& place, const http::Query& query) {
  const std::size_t limit = parse_number<std::size_t>(query.get("limit")).value_or(0);
  if (const auto token = query.get("continue"); !token.empty()) {
    const auto found = pages_.find(token);
    if (found == pages_.end()) return refusal(expired("The provided continue parameter is too old"));
    auto rest = std::move(pages_.extract(found).mapped());
    return page(std::move(rest.items), rest.version, limit, *place.type);
  }
  const auto selection = Selection::parse(place, query);
  if (!selection) return refusal(selection.error());
  std::vector<ObjectPtr> items = store_.list(*place.type, place.key.ns);
  std::erase_if(items, [&](const ObjectPtr& each) { return !(*selection)->holds(each); });
  return page(std::move(items), std::to_string(store_.version()), limit, *place.type);
}

Response ApiServer::watch(const Place& place, const http::Query& query) {
  auto selection = Selection::parse(place, query);
  if (!selection) return refusal(selection.error());
  const std::string_view version = query.get("resourceVersion");
  const auto number = parse_version(version);
  if (!version.empty() && !number) return refusal(Error(Code::InvalidRequest, "Invalid value: resourceVersion"));
  (*selection)->version = number.value_or(0);
  Response response;
  response.headers.set("Content-Type", "application/json");
  response.body = http::StreamBody{
      [this, selection = *selection](http::BodyWriter& out) { return send_events(selection, out); }, std::nullopt};
  return response;
}

net::awaitable<Result<void>> ApiServer::send_events(std::shared_ptr<Selection> selection, http::BodyWriter& out) {
  using namespace race;
  struct Count {
    explicit Count(ApiServer& s) : server(s) {
      ++server.open_watches_;
      server.changed_.notify_all();
    }
    ~Count() {
      --server.open_watches_;
      server.changed_.notify_all();
    }
    ApiServer& server;
  };
  if (auto sent = co_await out.flush(); !sent) co_return sent;
  std::uint64_t at = selection->version;
  if (at == 0) {
    at = store_.version();
    for (const ObjectPtr& each : store_.list(*selection->type, selection->ns)) {
      if (!selection->holds(each)) continue;
      const std::string line = event_line("ADDED", *each);
      if (auto sent = co_await out.write(line); !sent) co_return sent;
    }
  } else if (at < store_.oldest()) {
    const std::string line =
        event_line("ERROR", status_object(expired("too old resource version: " + std::to_string(at))));
    co_return co_await out.write(line);
  }
  const Count count(*this);
  const int epoch = epoch_, break_epoch = break_epoch_;
  int bookmark = bookmark_;
  const auto ends = clock_.steady_now() + selection->duration.value_or(std::chrono::hours(1));
  for (;;) {
    if (break_epoch != break_epoch_) co_return fail(Code::Internal, "broken off");
    if (epoch != epoch_ || clock_.steady_now() >= ends) co_return Result<void>();
    if (!hold_events) {
      std::string lines;
      const auto& history = store_.history();
      for (auto next = std::ranges::upper_bound(history, at, {}, &Change::version); next != history.end(); ++next) {
        const Change& change = *next;
        if (change.type != selection->type) continue;
        lines += change_line(change, selection->holds(change.before), selection->holds(change.after));
      }
      at = std::max(at, store_.version());
      if (bookmark != bookmark_ && selection->bookmarks) {
        lines += event_line("BOOKMARK", {{"kind", selection->type->resource.kind},
                                         {"apiVersion", selection->type->resource.api_version()},
                                         {"metadata", {{"resourceVersion", std::to_string(at)}}}});
      }
      const bool marked = std::exchange(bookmark, bookmark_) != bookmark_ && selection->bookmarks;
      if (auto sent = co_await out.write(lines); !sent) co_return sent;
      if (marked) {
        ++bookmarks_sent_;
        changed_.notify_all();
      }
      if (at != store_.version() || epoch != epoch_ || break_epoch != break_epoch_ || bookmark != bookmark_) continue;
    }
    const auto left = std::max(std::chrono::nanoseconds(0), ends - clock_.steady_now());
    if ((co_await (changed_.wait() || out.peer_closed() || sleep_for(left))).index() == 1) co_return Result<void>();
  }
}

Response ApiServer::patch(const Place& place, const http::Query& query, std::string_view media,
                          const json::object& body) {
  const std::string manager(query.get("fieldManager"));
  if (media == "application/apply-patch+yaml") {
    if (manager.empty()) return refusal(Error(Code::InvalidRequest, "fieldManager is required for apply patch"));
    const bool existed = store_.get(*place.type, place.key).has_value();
    return answer_of(
        store_.apply(*place.type, place.key, body, place.subresource, manager, query.get("force") == "true"),
        existed ? 200 : 201);
  }
  const auto found = store_.get(*place.type, place.key);
  if (!found) return refusal(found.error());
  json::object changed = **found;
  // A version in the patch is a condition; without one any version will do.
  make_object(changed, {"metadata"}).erase("resourceVersion");
  if (media == "application/merge-patch+json") {
    json::value whole(std::move(changed));
    merge_patch(whole, body);
    changed = std::move(whole.get_object());
  } else if (media == "application/strategic-merge-patch+json" && !place.type->custom) {
    if (auto done = strategic_merge_patch(changed, body); !done) return refusal(done.error());
  } else {
    return status_answer(415, "UnsupportedMediaType", "the body of the request was in an unknown format");
  }
  return answer_of(store_.update(*place.type, place.key, std::move(changed), place.subresource, manager));
}

Response ApiServer::scale(const Place& place, const std::string& method, const json::object& body) {
  auto found = store_.get(*place.type, place.key);
  if (!found) return refusal(found.error());
  if (method != "GET") {
    json::object object = **found;
    make_object(object, {"spec"})["replicas"] = number(body, {"spec", "replicas"});
    found = store_.update(*place.type, place.key, std::move(object), "");
    if (!found) return refusal(found.error());
  }
  return object_answer({{"apiVersion", "autoscaling/v1"},
                        {"kind", "Scale"},
                        {"metadata", {{"name", place.key.name}, {"namespace", place.key.ns}}},
                        {"spec", {{"replicas", number(**found, {"spec", "replicas"})}}},
                        {"status", {{"replicas", number(**found, {"status", "replicas"})}}}});
}

Response ApiServer::remove_all(const Place& place, const http::Query& query) {
  const auto selection = Selection::parse(place, query);
  if (!selection) return refusal(selection.error());
  for (const ObjectPtr& each : store_.list(*place.type, place.key.ns)) {
    if ((*selection)->holds(each)) (void)store_.remove(*place.type, key_of(*each), {});
  }
  return object_answer({{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}});
}

void ApiServer::end_watches() {
  ++epoch_;
  changed_.notify_all();
}
void ApiServer::break_watches() {
  ++break_epoch_;
  changed_.notify_all();
}
void ApiServer::send_bookmarks() {
  ++bookmark_;
  changed_.notify_all();
}
void ApiServer::compact() {
  store_.compact();
  pages_.clear();
}
void ApiServer::release_events() {
  hold_events = false;
  changed_.notify_all();
}
net::awaitable<bool> ApiServer::wait_bookmarks(std::size_t sent) {
  return changed_.wait_until([this, sent] { return bookmarks_sent_ >= sent; });
}
net::awaitable<bool> ApiServer::wait_watches(std::size_t count) {
  return changed_.wait_until([this, count] { return open_watches_ == count; });
}

Response ApiServer::pod_log(const Place& place, const http::Query& query) {
  const auto found = logs.find(place.key);
  if (found == logs.end()) return answer_of(store_.get(*place.type, place.key));
  if (!follow_logs || query.get("follow") != "true") return http::text_response(200, found->second);
  Response response;
  response.body = http::StreamBody{[this, text = found->second](http::BodyWriter& out) -> net::awaitable<Result<void>> {
                                     if (auto sent = co_await out.write(text); !sent) co_return sent;
                                     const int epoch = epoch_;
                                     (void)co_await changed_.wait_until([this, epoch] { return epoch != epoch_; });
                                     co_return Result<void>();
                                   },
                                   std::nullopt};
  return response;
}

Response ApiServer::pod_exec(Request& request, const http::Query& query) {
  if (!exec) return refusal(Error(Code::InvalidRequest, "this pod runs nothing"));
  auto run = [this, command = query.all("command")](http::WebSocket& socket) -> net::awaitable<void> {
    ExecPeer peer(socket);
    const int code = co_await exec(command, peer);
    json::object status{{"metadata", json::object()}, {"status", "Success"}};
    if (code != 0) {
      status = {{"metadata", json::object()},
                {"status", "Failure"},
                {"reason", "NonZeroExitCode"},
                {"message", "command terminated with non-zero exit code"},
                {"details", {{"causes", {{{"reason", "ExitCode"}, {"message", std::to_string(code)}}}}}}};
    }
    co_await peer.write(3, json::serialize(status));
    co_await socket.close(1000, "");
  };
  return http::websocket_response(request, {}, std::move(run), "v4.channel.k8s.io");
}

net::awaitable<void> ApiServer::ExecPeer::write(char channel, std::string text) {
  text.insert(text.begin(), channel);
  (void)co_await socket_.send_binary(text);
}

net::awaitable<Result<std::string>> ApiServer::ExecPeer::read_stdin() {
  for (;;) {
    auto message = co_await socket_.read();
    if (!message) co_return Failure(message.error());
    if (!message->data.empty() && message->data[0] == 0) co_return message->data.substr(1);
  }
}

}  // namespace osb::kubernetes::testing
