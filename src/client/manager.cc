#include <algorithm>
#include <opensandbox/async.h>

#include "async/timer.h"
#include "base/line_splitter.h"
#include "base/time.h"
#include "client/decode.h"
#include "client/errors.h"
#include "client/event_line.h"
#include "client/server_call.h"

namespace opensandbox::async {
namespace {

using std::chrono::milliseconds;

Call waiting(Call call, milliseconds wait, const ConnectionConfig& config) {
  if (wait.count() <= 0) return call;
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(wait);
  call.headers.add("Prefer", "wait=" + std::to_string(seconds.count()));
  call.head_timeout = seconds + config.request_timeout;
  return call;
}

Task<std::vector<SandboxInfo>> every_page(ClientState state, ListOptions options) {
  std::vector<SandboxInfo> out;
  for (options.page = 1;; ++options.page) {
    auto page = co_await SandboxManager(Client(state)).list(options);
    if (!page) co_return Failure(std::move(page.error()));
    out.insert(out.end(), std::make_move_iterator(page->items.begin()), std::make_move_iterator(page->items.end()));
    if (!page->pagination.has_next_page || page->items.empty()) co_return out;
  }
}

Task<Endpoint> find_endpoint(ClientState state, std::string target) {
  auto reply = co_await state->call(state->server, {.target = std::move(target)});
  if (!reply) co_return Failure(std::move(reply.error()));
  const auto value = parse_answer(reply->body, reply->request_id);
  if (!value) co_return Failure(value.error());
  Endpoint out;
  if (const auto* object = value->if_object()) {
    out.endpoint = text_of(*object, "endpoint");
    if (const auto* headers = object_of(*object, "headers")) out.headers = map_of(*headers);
    out.browser_url = text_of(*object, "browserUrl");
  }
  if (out.endpoint.empty()) co_return invalid_response("the endpoint is empty", reply->request_id);
  out.url = out.endpoint.contains("://") ? out.endpoint : state->config.protocol + "://" + out.endpoint;
  co_return out;
}

// --- states

// One line of ?watch=true. Nothing: a ping.
std::optional<std::optional<SandboxInfo>> state_event(std::string_view line) {
  const std::string_view text = event_json(line);
  if (text.empty()) return std::nullopt;
  const auto value = parse_answer(text, "");
  if (!value || !value->is_object()) return std::nullopt;
  const auto& object = value->get_object();
  const std::string type = text_of(object, "type");
  if (type == "deleted") return std::optional<SandboxInfo>();
  const auto* sandbox = object_of(object, "sandbox");
  if (type != "state" || sandbox == nullptr) return std::nullopt;
  return std::optional(sandbox_from(*sandbox));
}

Task<bool> hand_out(std::string_view lines, osb::LineSplitter& splitter, const StateSink& sink) {
  std::vector<std::optional<SandboxInfo>> states;
  splitter.feed(lines, [&](std::string_view line) {
    if (auto event = state_event(line)) states.push_back(std::move(*event));
  });
  for (const auto& state : states) {
    auto more = co_await sink(state ? &*state : nullptr);
    if (!more) co_return Failure(std::move(more.error()));
    if (!*more || !state) co_return false;
  }
  co_return true;
}

// A server without streams: looks again and again, and reports what has changed.
Task<void> look_repeatedly(ClientState state, std::string id, StateSink sink, milliseconds interval,
                           std::optional<SandboxInfo> first) {
  std::string last;
  for (;;) {
    Result<SandboxInfo> now =
        first ? Result<SandboxInfo>(std::move(*first)) : co_await SandboxManager(Client(state)).get(id);
    first.reset();
    if (!now && !now.error().not_found()) co_return Failure(std::move(now.error()));
    if (!now || now->json != last) {
      auto more = co_await sink(now ? &*now : nullptr);
      if (!more) co_return Failure(std::move(more.error()));
      if (!*more || !now) co_return Result<void>();
      last = now->json;
    }
    if (!co_await osb::sleep_for(interval)) co_return cancelled("the watch was cancelled");
  }
}

Task<void> watch_states(ClientState state, std::string id, StateSink sink, milliseconds interval) {
  bool any = false;
  for (;;) {
    Call call{.target = sandbox_target(id, "?watch=true")};
    auto stream = co_await state->open(state->server, std::move(call));
    if (!stream) {
      if (any && stream.error().not_found()) {
        (void)co_await sink(nullptr);
        co_return Result<void>();
      }
      co_return Failure(std::move(stream.error()));
    }
    if (!stream->headers.get("Content-Type").starts_with("text/event-stream")) {
      auto body = co_await stream->body->read_all(1024 * 1024);
      if (!body) co_return from_transport(body.error());
      Reply reply;
      reply.body = std::move(*body);
      auto first = decode_sandbox(reply);
      if (!first) co_return Failure(std::move(first.error()));
      co_return co_await look_repeatedly(state, std::move(id), std::move(sink), interval, std::move(*first));
    }
    osb::LineSplitter splitter;
    for (;;) {
      auto piece = co_await stream->body->read();
      if (!piece || piece->empty()) break;  // lost: ask again, which begins with the state of now
      auto more = co_await hand_out(*piece, splitter, sink);
      if (!more) co_return Failure(std::move(more.error()));
      if (!*more) co_return Result<void>();
      if (splitter.pending() > kLongestLine) {
        co_return invalid_response("an event is longer than any event may be", stream->request_id);
      }
      any = true;
    }
    if (!any) co_return network_error("the stream of states ended before the first one");
    any = true;
    if (!co_await osb::sleep_for(interval)) co_return cancelled("the watch was cancelled");
  }
}

Task<SandboxInfo> until_state(ClientState state, std::string id, std::vector<std::string> states) {
  std::optional<Result<SandboxInfo>> outcome;
  StateSink sink = [&](const SandboxInfo* now) -> Task<bool> {
    if (now == nullptr) {
      const bool wanted = std::ranges::find(states, state::kTerminated) != states.end();
      SandboxInfo gone;
      gone.id = id;
      gone.status.state = state::kTerminated;
      if (wanted) {
        outcome = std::move(gone);
      } else {
        Error error{
            .kind = ErrorKind::Unhealthy, .status = 404, .code = "UNHEALTHY", .message = "sandbox " + id + " is gone"};
        outcome = Failure(std::move(error));
      }
      co_return false;
    }
    if (std::ranges::find(states, now->status.state) != states.end()) {
      outcome = *now;
      co_return false;
    }
    if (now->status.state == state::kFailed || now->status.state == state::kTerminated) {
      Error error{.kind = ErrorKind::Unhealthy, .code = "UNHEALTHY"};
      error.message = "sandbox " + id + " is " + now->status.state;
      if (!now->status.message.empty()) error.message += ": " + now->status.message;
      outcome = Failure(std::move(error));
      co_return false;
    }
    co_return true;
  };
  auto watched = co_await watch_states(std::move(state), id, sink, milliseconds(200));
  if (outcome) co_return std::move(*outcome);
  if (!watched) co_return Failure(std::move(watched.error()));
  co_return network_error("the watch ended");
}

// The library's own Result for osb::with_timeout. To be cancelled is no result: where the time is up it comes from
// that.
template <typename T>
net::awaitable<osb::Result<Result<T>>> wrapped(Task<T> task) {
  auto out = co_await std::move(task);
  if (!out && out.error().kind == ErrorKind::Cancelled) {
    co_return osb::fail(osb::Code::Cancelled, std::move(out.error().message));
  }
  co_return out;
}

Task<SandboxInfo> until_state_or_late(ClientState state, std::string id, std::vector<std::string> states,
                                      milliseconds timeout) {
  std::string names;
  for (const auto& name : states) names += (names.empty() ? "" : " or ") + name;
  auto out = co_await osb::with_timeout(wrapped(until_state(std::move(state), id, std::move(states))), timeout);
  if (out) co_return std::move(*out);
  if (out.error().code == osb::Code::Cancelled) co_return from_transport(out.error());
  Error error{.kind = ErrorKind::ReadyTimeout, .code = "READY_TIMEOUT"};
  error.message = "sandbox " + id + " was not " + names + " within " + std::to_string(timeout.count()) + " ms";
  co_return Failure(std::move(error));
}

int sources_of(const CreateOptions& options) {
  return !options.image.empty() + !options.snapshot_id.empty() + !options.template_id.empty();
}

}  // namespace

Task<SandboxInfo> SandboxManager::create(CreateOptions options, std::chrono::seconds wait) const {
  if (sources_of(options) != 1 && !(sources_of(options) == 0 && options.extensions.contains("poolRef"))) {
    return failed<SandboxInfo>(invalid_argument("exactly one of image, snapshot_id and template_id has to be given"));
  }
  Call call = json_call("POST", "/sandboxes", encode_create(options));
  if (!options.idempotency_key.empty()) call.headers.add("Idempotency-Key", options.idempotency_key);
  return ask(client_.state(), waiting(std::move(call), wait, client_.config()), decode_sandbox);
}

Task<SandboxInfo> SandboxManager::get(std::string id) const {
  if (id.empty()) return failed<SandboxInfo>(no_id("sandbox id"));
  return ask(client_.state(), {.target = sandbox_target(id)}, decode_sandbox);
}

Task<SandboxList> SandboxManager::list(ListOptions options) const {
  std::string target = "/sandboxes";
  for (const auto& state : options.states) add_query(target, "state", state);
  if (!options.metadata.empty()) add_query(target, "metadata", metadata_filter(options.metadata));
  if (!options.match.empty()) add_query(target, "match", options.match);
  if (options.page > 0) add_query(target, "page", std::to_string(options.page));
  if (options.page_size > 0) add_query(target, "pageSize", std::to_string(options.page_size));
  return ask(client_.state(), {.target = std::move(target)}, decode_sandbox_list);
}

Task<std::vector<SandboxInfo>> SandboxManager::list_all(ListOptions options) const {
  return every_page(client_.state(), std::move(options));
}

Task<void> SandboxManager::kill(std::string id) const {
  if (id.empty()) return failed<void>(no_id("sandbox id"));
  return tell(client_.state(), {.method = "DELETE", .target = sandbox_target(id)});
}

Task<void> SandboxManager::pause(std::string id) const {
  if (id.empty()) return failed<void>(no_id("sandbox id"));
  return tell(client_.state(), {.method = "POST", .target = sandbox_target(id, "/pause")});
}

Task<void> SandboxManager::resume(std::string id) const {
  if (id.empty()) return failed<void>(no_id("sandbox id"));
  return tell(client_.state(), {.method = "POST", .target = sandbox_target(id, "/resume")});
}

Task<Timestamp> SandboxManager::renew(std::string id, milliseconds timeout) const {
  if (timeout.count() <= 0) return failed<Timestamp>(invalid_argument("timeout: must be positive"));
  return renew_until(std::move(id), osb::timestamp_now() + timeout);
}

Task<Timestamp> SandboxManager::renew_until(std::string id, Timestamp expires_at) const {
  if (id.empty()) return failed<Timestamp>(no_id("sandbox id"));
  const json::object body{{"expiresAt", format_timestamp(expires_at)}};
  return ask(client_.state(), json_call("POST", sandbox_target(id, "/renew-expiration"), json::serialize(body)),
             decode_renewed);
}

Task<SandboxInfo> SandboxManager::patch_metadata(std::string id, MetadataPatch patch) const {
  if (id.empty()) return failed<SandboxInfo>(no_id("sandbox id"));
  json::object body;
  for (const auto& [key, value] : patch) {
    if (value) {
      body[key] = *value;
    } else {
      body[key] = nullptr;
    }
  }
  Call call = json_call("PATCH", sandbox_target(id, "/metadata"), json::serialize(body));
  call.content_type = "application/merge-patch+json";
  return ask(client_.state(), std::move(call), decode_sandbox);
}

Task<Endpoint> SandboxManager::endpoint(std::string id, int port, EndpointOptions options) const {
  if (id.empty()) return failed<Endpoint>(no_id("sandbox id"));
  std::string target = sandbox_target(id, "/endpoints/" + std::to_string(port));
  const bool proxy = options.use_server_proxy.value_or(client_.config().use_server_proxy);
  if (options.expires) {
    add_query(target, "expires", std::to_string(options.expires->time_since_epoch().count()));
    if (options.use_server_proxy) add_query(target, "use_server_proxy", proxy ? "true" : "false");
  } else {
    add_query(target, "use_server_proxy", proxy ? "true" : "false");
  }
  return find_endpoint(client_.state(), std::move(target));
}

Task<void> SandboxManager::watch(std::string id, StateSink sink, milliseconds poll_interval) const {
  if (id.empty()) return failed<void>(no_id("sandbox id"));
  return watch_states(client_.state(), std::move(id), std::move(sink), poll_interval);
}

Task<SandboxInfo> SandboxManager::wait_for_state(std::string id, std::vector<std::string> states,
                                                 milliseconds timeout) const {
  if (id.empty()) return failed<SandboxInfo>(no_id("sandbox id"));
  return until_state_or_late(client_.state(), std::move(id), std::move(states), timeout);
}

Task<std::string> SandboxManager::request(std::string method, std::string path, std::string body) const {
  if (!path.starts_with('/')) return failed<std::string>(invalid_argument("path: has to begin with /"));
  Call call{.method = std::move(method), .target = std::move(path)};
  if (!body.empty()) {
    call.body = std::move(body);
    call.content_type = "application/json";
  }
  return text(client_.state(), std::move(call));
}

}  // namespace opensandbox::async
