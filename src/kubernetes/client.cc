#include "kubernetes/client.h"

#include <algorithm>

#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "base/parse_number.h"
#include "http/url.h"
#include "kubernetes/api_status.h"

namespace osb::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kMaxAnswer = 256 << 20;  // a list without a limit
constexpr std::size_t kMaxRefusal = 1 << 20;
constexpr seconds kLongestPause{30};
constexpr std::size_t kMaxDepth = 128;

class QueryText {
 public:
  QueryText& add(std::string_view name, std::string_view value) {
    if (value.empty()) return *this;
    text_ += (text_.empty() ? "?" : "&") + std::string(name) + "=" + http::percent_encode(value);
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string path_of(const Ref& ref) { return ref.resource.path(ref.key.ns, ref.key.name, ref.subresource); }

std::string_view media_type(PatchType type) {
  switch (type) {
    case PatchType::Merge:
      return "application/merge-patch+json";
    case PatchType::Strategic:
      return "application/strategic-merge-patch+json";
    case PatchType::Apply:
      return "application/apply-patch+yaml";  // JSON is YAML
  }
  return "";
}

void name_type(json::object& object, const Resource& resource) {
  if (!object.contains("apiVersion")) object["apiVersion"] = resource.api_version();
  if (!object.contains("kind")) object["kind"] = resource.kind;
}

// Whether the server wants the request again, and when at the earliest.
std::optional<seconds> asked_to_repeat(const http::ClientResponse& response) {
  const auto after = parse_number<int>(response.headers.get("Retry-After"));
  if (response.status != 429 && (response.status < 500 || !after)) return std::nullopt;
  return std::clamp(seconds(after.value_or(0)), seconds(0), kLongestPause);
}

// Requests for pod logs, exec and the like contain no secrets, but a query may be long.
std::string short_target(const std::string& target) { return target.substr(0, target.find('?')); }

class OwnedConnector final : public http::Connector {
 public:
  explicit OwnedConnector(http::Connector& inner) : inner_(inner) {}
  net::awaitable<Result<std::unique_ptr<http::Transport>>> connect(std::string origin, milliseconds timeout) override {
    return inner_.connect(std::move(origin), timeout);
  }

 private:
  http::Connector& inner_;
};

}  // namespace

Result<std::unique_ptr<Client>> Client::open(net::any_io_executor executor, ClusterConfig config,
                                             ClientOptions options) {
  std::unique_ptr<Client> client(new Client(std::move(executor), std::move(config), std::move(options)));
  if (client->access_.origin().empty()) {
    return fail(Code::InvalidRequest, "kubernetes: '" + client->config().server + "' is no address of an API server");
  }
  // Credentials that cannot be read fail here and not with the first request.
  if (auto token = client->access_.token(); !token) return Failure(token.error());
  if (auto context = client->access_.context(); !context) return Failure(context.error());
  return client;
}

Client::Client(net::any_io_executor executor, ClusterConfig config, ClientOptions options)
    : options_(std::move(options)),
      access_(std::move(config)),
      connector_(make_cluster_connector(std::move(executor), access_)),
      http_(std::make_unique<OwnedConnector>(*connector_)),
      reads_(options_.read_qps, options_.read_burst, *options_.clock),
      writes_(options_.write_qps, options_.write_burst, *options_.clock),
      pauses_(milliseconds(100), milliseconds(5000)) {}

Failure Client::unreachable(const Error& why) const {
  if (why.code == Code::Cancelled) return Failure(why);
  return Failure(Error(Code::Unavailable, "API server " + access_.origin() + ": " + why.message, why.sys_errno));
}

net::awaitable<Result<http::ClientResponse>> Client::attempt(const Call& call) {
  const auto token = access_.token();
  if (!token) co_return Failure(token.error());
  if (access_.certificates_changed()) http_.clear();
  http::ClientRequest request;
  request.method = call.method;
  request.target = access_.prefix() + call.target;
  request.body = call.body;
  request.headers.set("User-Agent", options_.user_agent);
  request.headers.set("Accept", "application/json");
  if (!call.content_type.empty()) request.headers.set("Content-Type", call.content_type);
  if (!token->empty()) request.headers.set("Authorization", "Bearer " + *token);
  request.timeouts.head = options_.timeout;
  request.timeouts.body_stall = call.stall;
  auto response = co_await http_.send(access_.origin(), std::move(request));
  if (!response) co_return unreachable(response.error());
  if (!response->body) co_return unreachable(Error(Code::Unavailable, "unexpected upgrade"));
  co_return response;
}

net::awaitable<Result<http::ClientResponse>> Client::send(Call call) {
  TokenBucket& bucket = call.method == "GET" ? reads_ : writes_;
  bool token_tried = false;
  JitteredBackoff pauses = pauses_;
  for (int repeats = 0;;) {
    if (const auto turn = bucket.take(); turn.count() > 0 && !co_await options_.sleep(turn)) {
      co_return fail(Code::Cancelled, "cancelled");
    }
    auto response = co_await attempt(call);
    if (!response || response->status < 400) co_return response;
    auto body = co_await response->body->read_all(kMaxRefusal);
    if (!body) co_return unreachable(body.error());
    if (response->status == 401 && !std::exchange(token_tried, true) && access_.forget_token()) continue;
    const auto again = asked_to_repeat(*response);
    if (!again || repeats++ >= options_.repeats) {
      co_return with_context(call.method + " " + short_target(call.target), api_error(response->status, *body));
    }
    if (!co_await options_.sleep(*again + pauses.next())) co_return fail(Code::Cancelled, "cancelled");
  }
}

net::awaitable<Result<json::object>> Client::object(Call call) {
  const std::string what = call.method + " " + short_target(call.target);
  auto response = co_await send(std::move(call));
  if (!response) co_return Failure(response.error());
  const auto body = co_await response->body->read_all(kMaxAnswer);
  if (!body) co_return unreachable(body.error());
  auto value = api::parse_json(*body, {.max_depth = kMaxDepth});
  if (!value) co_return with_context(what, value.error());
  if (!value->is_object()) co_return fail(Code::Internal, what + ": the answer is no object");
  co_return std::move(value->get_object());
}

net::awaitable<Result<json::object>> Client::get(Ref ref) { return object({.target = path_of(ref)}); }

net::awaitable<Result<List>> Client::list(Resource resource, std::string ns, ListOptions options) {
  QueryText query;
  query.add("labelSelector", options.labels).add("fieldSelector", options.fields);
  // A continued list goes on with the version at which it has begun.
  if (options.next.empty()) query.add("resourceVersion", options.version);
  query.add("limit", options.limit > 0 ? std::to_string(options.limit) : "").add("continue", options.next);
  auto answer = co_await object({.target = resource.path(ns) + query.take()});
  if (!answer) co_return Failure(answer.error());
  List out;
  out.version = text(*answer, {"metadata", "resourceVersion"});
  out.next = text(*answer, {"metadata", "continue"});
  json::value* items = answer->if_contains("items");
  if (items == nullptr || !items->is_array()) co_return out;  // "items": null is an empty list
  out.items.reserve(items->get_array().size());
  for (json::value& each : items->get_array()) {
    if (!each.is_object()) co_return fail(Code::Internal, "list of " + resource.to_string() + ": an item is no object");
    name_type(each.get_object(), resource);
    out.items.push_back(std::make_shared<const json::object>(std::move(each.get_object())));
  }
  co_return out;
}

net::awaitable<Result<std::unique_ptr<Watch>>> Client::watch(Resource resource, std::string ns, WatchOptions options) {
  QueryText query;
  query.add("watch", "true").add("allowWatchBookmarks", "true");
  query.add("labelSelector", options.labels).add("fieldSelector", options.fields);
  query.add("resourceVersion", options.version).add("timeoutSeconds", std::to_string(options.duration.count()));
  // The server ends the watch; a connection that is silent for longer leads nowhere.
  auto response = co_await send({.target = resource.path(ns) + query.take(), .stall = options.duration + seconds(30)});
  if (!response) co_return Failure(response.error());
  co_return std::make_unique<Watch>(std::move(*response));
}

net::awaitable<Result<json::object>> Client::create(Resource resource, std::string ns, json::object value) {
  name_type(value, resource);
  if (resource.namespaced && !ns.empty()) make_object(value, {"metadata"})["namespace"] = ns;
  return object({.method = "POST",
                 .target = resource.path(ns),
                 .content_type = "application/json",
                 .body = json::serialize(value)});
}

net::awaitable<Result<json::object>> Client::replace(Ref ref, json::object value) {
  name_type(value, ref.resource);
  return object(
      {.method = "PUT", .target = path_of(ref), .content_type = "application/json", .body = json::serialize(value)});
}

net::awaitable<Result<json::object>> Client::patch(Ref ref, PatchType type, json::object patch, PatchOptions options) {
  if (type == PatchType::Apply) name_type(patch, ref.resource);
  QueryText query;
  query.add("fieldManager", options.manager).add("force", options.force ? "true" : "");
  return object({.method = "PATCH",
                 .target = path_of(ref) + query.take(),
                 .content_type = std::string(media_type(type)),
                 .body = json::serialize(patch)});
}

net::awaitable<Result<void>> Client::remove(Ref ref, DeleteOptions options) {
  json::object body{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"propagationPolicy", options.propagation}};
  if (options.grace_seconds) body["gracePeriodSeconds"] = *options.grace_seconds;
  if (!options.uid.empty()) make_object(body, {"preconditions"})["uid"] = options.uid;
  if (!options.version.empty()) make_object(body, {"preconditions"})["resourceVersion"] = options.version;
  const auto done = co_await object(
      {.method = "DELETE", .target = path_of(ref), .content_type = "application/json", .body = json::serialize(body)});
  if (!done) co_return Failure(done.error());
  co_return Result<void>();
}

net::awaitable<Result<int>> Client::replicas(Resource resource, Key key) {
  const auto scale = co_await get({std::move(resource), std::move(key), "scale"});
  if (!scale) co_return Failure(scale.error());
  co_return static_cast<int>(number(*scale, {"spec", "replicas"}));
}

net::awaitable<Result<int>> Client::set_replicas(Resource resource, Key key, int wanted) {
  const json::object change{{"spec", {{"replicas", wanted}}}};
  const auto scale = co_await patch({std::move(resource), std::move(key), "scale"}, PatchType::Merge, change);
  if (!scale) co_return Failure(scale.error());
  co_return static_cast<int>(number(*scale, {"spec", "replicas"}));
}

net::awaitable<Result<std::unique_ptr<http::BodySource>>> Client::stream(std::string target) {
  // A container may be silent for as long as it likes.
  auto response = co_await send({.target = std::move(target), .stall = std::chrono::hours(24 * 365)});
  if (!response) co_return Failure(response.error());
  co_return std::move(response->body);
}

net::awaitable<Result<Client::Opened>> Client::open_connection(std::string target) {
  const auto token = access_.token();
  if (!token) co_return Failure(token.error());
  Opened out;
  if (!token->empty()) out.headers.set("Authorization", "Bearer " + *token);
  out.headers.set("User-Agent", options_.user_agent);
  out.host = access_.origin().substr(access_.origin().find("://") + 3);
  out.target = access_.prefix() + target;
  auto made = co_await connector_->connect(access_.origin(), options_.timeout);
  if (!made) co_return unreachable(made.error());
  out.transport = std::move(*made);
  co_return out;
}

}  // namespace osb::kubernetes
