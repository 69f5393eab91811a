#include "runtime/docker/sidecars.h"

#include <algorithm>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/lifecycle_error.h"
#include "async/race.h"
#include "base/log.h"
#include "base/ports.h"
#include "http/url.h"
#include "runtime/docker/container.h"
#include "runtime/docker/docker_logs.h"
#include "runtime/docker/engine_json.h"
#include "runtime/docker/resolvers.h"
#include "runtime/egress_variables.h"
#include "sys/text_file.h"
#include "tls/connector.h"

namespace osb::runtime {

using namespace race;

namespace {

namespace json = boost::json;

constexpr std::string_view kStartFailed = "DOCKER::SANDBOX_START_FAILED";
// The program listens some milliseconds after the engine has started its container.
constexpr std::chrono::milliseconds kFirstAsk(1), kLastAsk(50);
// Before a sidecar that ended again is started again. The pauses are short again after a calm time.
constexpr std::chrono::milliseconds kFirstPause(50), kLastPause(10'000);
constexpr std::chrono::minutes kCalm(1);
constexpr std::chrono::minutes kYoung(10);
constexpr std::size_t kEndOfLog = 2000;

std::string why_missing(const DockerContext& context, const std::vector<std::string>& resolvers) {
  const DockerOptions& options = context.options;
  if (options.docker.network_mode != "bridge") {
    return "needs [docker] network_mode = \"bridge\"; it is \"" + options.docker.network_mode + "\"";
  }
  const std::string& runtime = options.runtime.empty() ? context.facts.default_runtime : options.runtime;
  if (!options.runtime.empty() || runtime.contains("runsc") || runtime.contains("kata")) {
    return "sandboxes of the runtime " + runtime +
           " have a network stack of their own, which the sidecar cannot govern; use the native backend";
  }
  if (options.egress.image.empty()) return "[egress] image is not set; `make images` builds one";
  if (resolvers.empty()) {
    return context.facts.local ? "this machine's resolvers are on loopback, out of reach of containers: set [egress] "
                                 "dns_upstream"
                               : "the engine is on another machine: set [egress] dns_upstream";
  }
  return "";
}

bool is_about_ipv6(const Error& error) {
  return error.message.contains("sysctl") || error.message.contains("disable_ipv6");
}

Failure start_failed(const Error& why) {
  if (why.code == Code::Unavailable || why.code == Code::Cancelled || !why.reason.empty()) return Failure(why);
  return api::refuse(Code::Internal, kStartFailed, "egress sidecar: " + why.message);
}

std::string path_of(const std::string& sandbox, std::string_view rest = "") {
  return container_path(sidecar_id(sandbox), rest);
}

}  // namespace

Sidecars::Sidecars(DockerContext& context, Images& images)
    : context_(context),
      images_(images),
      client_(tls::make_connector(context.executor)),
      resolvers_(context.options.egress.dns_upstream.empty() && context.facts.local
                     ? resolvers_of_this_machine()
                     : context.options.egress.dns_upstream),
      missing_(why_missing(context, resolvers_)) {}

bool Sidecars::note_refusal(const Error& error) {
  if (!without_ipv6() || !is_about_ipv6(error)) return false;
  log_info("the engine cannot turn IPv6 off", {{"error", error.message}});
  has_ipv6_ = false;
  return true;
}

net::awaitable<Result<void>> Sidecars::make(const SandboxSpec& spec, std::string container, std::string authority,
                                            Interest interest) {
  Images::Wanted image{.name = context_.options.egress.image, .platform = {}, .login = {}};
  if (auto there = co_await images_.ensure(std::move(image), interest); !there) co_return Failure(there.error());
  const SidecarPlan plan{
      .container = std::move(container), .resolvers = resolvers_, .cgroup_parent = context_.facts.limits.cgroup_parent};
  if (auto made = co_await create(spec, plan); !made) co_return start_failed(made.error());
  if (!authority.empty()) {
    if (auto put = co_await put_files(spec, std::move(authority)); !put) co_return start_failed(put.error());
  }
  co_return Result<void>();
}

net::awaitable<Result<void>> Sidecars::put_files(const SandboxSpec& spec, std::string authority) {
  const config::EgressSection& egress = context_.options.egress;
  SidecarFiles files{
      .authority = std::move(authority), .extra_trust = {}, .proxy_authorization = egress.upstream_proxy.authorization};
  const std::pair<const char*, std::string> trusted[] = {
      {"[egress] upstream_ca", egress.upstream_ca.string()},
      {"[egress.upstream_proxy] ca_cert_path", egress.upstream_proxy.ca_cert_path.string()}};
  for (const auto& [key, file] : trusted) {
    if (file.empty()) continue;
    const auto text = co_await context_.pool.run([&] { return sys::read_text(file); });
    if (!text) co_return with_context(key, text.error());
    files.extra_trust.append(*text).append("\n");
  }
  co_return co_await context_.engine.put(path_of(spec.id, "/archive?path=" + http::percent_encode(kSidecarState)),
                                         "application/x-tar", sidecar_archive(files));
}

net::awaitable<Result<void>> Sidecars::create(const SandboxSpec& spec, const SidecarPlan& plan) {
  EngineClient::Call call{
      .method = "POST",
      .target = "/containers/create?name=" + http::percent_encode(container_name(sidecar_id(spec.id))),
      .body = sidecar_body(spec, plan, context_.options)};
  auto created = co_await context_.engine.call(call);
  if (!created && created.error().code == Code::NotFound) {
    // Another program has removed the image.
    images_.forget_all();
    co_return Failure(created.error());
  }
  // One of an earlier try, for another container.
  if (!created && created.error().code == Code::Conflict) {
    co_await remove(spec.id);
    created = co_await context_.engine.call(std::move(call));
  }
  if (!created) co_return Failure(created.error());
  co_return Result<void>();
}

net::awaitable<Result<void>> Sidecars::start(const SandboxSpec& spec, const PortMap& ports, Interest interest) {
  const auto started = co_await context_.engine.call({.method = "POST", .target = path_of(spec.id, "/start")});
  if (!started) co_return start_failed(started.error());
  if (auto healthy = co_await wait_healthy(spec, ports, interest); !healthy) co_return start_failed(healthy.error());
  co_return Result<void>();
}

net::awaitable<void> Sidecars::revive(std::string sandbox, std::function<bool()> wanted) {
  const auto found = revivals_.try_emplace(sandbox, Revival{Backoff(kFirstPause, kLastPause), {}}).first;
  if (std::exchange(found->second.under_way, true)) co_return;
  const struct Over {
    Sidecars& self;
    const std::string& sandbox;
    ~Over() {
      if (const auto left = self.revivals_.find(sandbox); left != self.revivals_.end()) left->second.under_way = false;
    }
  } over{*this, sandbox};
  // remove() ends it.
  while (revivals_.contains(sandbox) && wanted()) {
    Revival& revival = revivals_.at(sandbox);
    const auto last = std::exchange(revival.last, context_.clock.steady_now());
    if (revival.last - last < kCalm) {
      if (!co_await sleep_for(revival.pause.next())) co_return;
      if (!revivals_.contains(sandbox) || !wanted()) co_return;
    } else {
      revival.pause.reset();
    }
    const auto started = co_await context_.engine.call({.method = "POST", .target = path_of(sandbox, "/start")});
    if (started) {
      log_warn("egress sidecar had ended and was started again", {{"id", sandbox}});
      co_return;
    }
    // It is being removed.
    if (started.error().code == Code::Conflict) co_return;
    log_error("egress sidecar has ended and cannot be started; the sandbox keeps its packet rules and has no names",
              {{"id", sandbox}, {"error", started.error().message}});
    if (started.error().code == Code::NotFound) co_return;
  }
}

net::awaitable<Error> Sidecars::ended(std::string sandbox) {
  auto log = co_await read_log_tail(context_.engine, sidecar_id(sandbox), kEndOfLog);
  std::string why = "it ended at once";
  if (log && !log->empty()) why += ": " + *log;
  while (why.ends_with('\n')) why.pop_back();
  co_return Error(Code::Internal, std::move(why));
}

// The engine says when a container has started, not when its program listens. The question goes to the container's own
// address where that can be reached: the kernel refuses connections there until the program listens. The program
// answers only when its rules are in force.
net::awaitable<Result<void>> Sidecars::wait_healthy(const SandboxSpec& spec, const PortMap& ports, Interest& interest) {
  const auto deadline = context_.clock.steady_now() +
                        std::chrono::duration_cast<std::chrono::nanoseconds>(context_.options.egress.readiness_timeout);
  Backoff pause(kFirstAsk, kLastAsk);
  for (;;) {
    // While it runs it is asked often; whether it still runs, now and then.
    const auto look_again = context_.clock.steady_now() + std::chrono::seconds(1);
    while (context_.clock.steady_now() < look_again) {
      if (interest.given_up()) co_return fail(Code::Cancelled, "the sandbox was removed while it was being created");
      if (co_await ask(ports.route(kEgressPort).origin, spec.egress_token)) co_return Result<void>();
      if (context_.clock.steady_now() > deadline) {
        co_return fail(Code::Internal, "it is not healthy ([egress] readiness_timeout_seconds)");
      }
      (void)co_await (interest.changed.wait() || sleep_for(pause.next()));
    }
    const auto inspected = co_await context_.engine.call({.target = path_of(spec.id, "/json")});
    if (!inspected) co_return Failure(inspected.error());
    if (engine::text(*inspected, {"State", "Status"}) != "running") co_return Failure(co_await ended(spec.id));
  }
}

net::awaitable<bool> Sidecars::ask(std::string origin, std::string token) {
  http::ClientRequest request;
  request.target = "/healthz";
  request.headers.set(api::kEgressTokenHeader, std::move(token));
  request.headers.set("Connection", "close");
  request.timeouts.connect = request.timeouts.head = std::chrono::seconds(1);
  const auto response = co_await client_.send(std::move(origin), std::move(request));
  co_return response && response->status / 100 == 2;
}

net::awaitable<Result<void>> Sidecars::set_paused(std::string sandbox, bool paused) {
  const auto answer =
      co_await context_.engine.call({.method = "POST", .target = path_of(sandbox, paused ? "/pause" : "/unpause")});
  if (answer) co_return Result<void>();
  const auto inspected = co_await context_.engine.call({.target = path_of(sandbox, "/json")});
  const std::string status = inspected ? engine::text(*inspected, {"State", "Status"}) : "missing";
  if (status == (paused ? "paused" : "running")) co_return Result<void>();
  if (status == "exited" || status == "stopped") {
    // The sandbox keeps its packet rules meanwhile.
    if (paused) co_return Result<void>();
    if (co_await context_.engine.call({.method = "POST", .target = path_of(sandbox, "/start")})) {
      co_return Result<void>();
    }
  }
  co_return fail(Code::Internal, "its egress sidecar, which is " + status + ": " + answer.error().message);
}

net::awaitable<void> Sidecars::remove(std::string sandbox) {
  revivals_.erase(sandbox);
  const auto removed = co_await context_.engine.call({.method = "DELETE", .target = path_of(sandbox, "?force=1&v=1")});
  if (removed || removed.error().code == Code::NotFound) co_return;
  if (removed.error().code == Code::Conflict) {
    // Another removal is under way.
    (void)co_await context_.engine.call({.method = "POST", .target = path_of(sandbox, "/wait?condition=removed")});
    co_return;
  }
  log_warn("egress sidecar not removed", {{"id", sandbox}, {"error", removed.error().message}});
}

net::awaitable<std::vector<std::string>> Sidecars::sweep(std::vector<std::string> living) {
  std::vector<std::string> ended;
  const std::string filters = json::serialize(json::object{{"label", json::array{label::kSidecarFor}}});
  const auto listed =
      co_await context_.engine.call({.target = "/containers/json?all=1&filters=" + http::percent_encode(filters)});
  if (!listed || !listed->is_array()) co_return ended;
  const auto oldest = std::chrono::system_clock::to_time_t(context_.clock.now() - kYoung);
  for (const json::value& each : listed->get_array()) {
    const std::string sandbox = engine::text(each, {"Labels", label::kSidecarFor});
    const auto names = engine::string_list(each, {"Names"});
    // The label alone may come from an image.
    if (names.empty() || names.front() != "/" + container_name(sidecar_id(sandbox))) continue;
    if (std::ranges::find(living, sandbox) != living.end()) {
      const std::string state = engine::text(each, {"State"});
      if (state == "exited" || state == "stopped" || state == "created") ended.push_back(sandbox);
      continue;
    }
    if (engine::number(each, {"Created"}) > oldest) continue;
    log_warn("removing the egress sidecar of a sandbox that is gone", {{"id", sandbox}});
    co_await remove(sandbox);
  }
  co_return ended;
}

}  // namespace osb::runtime
