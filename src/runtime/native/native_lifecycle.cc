#include "runtime/native/native_lifecycle.h"

#include <algorithm>

#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "async/race.h"
#include "async/timer.h"
#include "base/backoff.h"
#include "http/url.h"
#include "runtime/native/native_spec.h"

namespace osb::runtime {

using namespace race;

namespace {

namespace json = boost::json;
namespace native = api::native;
using Patience = SandboxdClient::Patience;

constexpr std::chrono::milliseconds kFirstRetry(50), kLastRetry(1000);

std::string path_of(const std::string& id, std::string_view rest = "") {
  return "/v1/sandboxes/" + http::percent_encode(id) + std::string(rest);
}

Result<Instance> decode_instance(const json::value& value) {
  const auto sandbox = native::decode_sandbox(value);
  if (!sandbox) return with_context("answer of sandboxd", sandbox.error());
  return to_instance(*sandbox);
}

Result<Instance> decode_instance(const Result<json::value>& value) {
  if (!value) return Failure(value.error());
  return decode_instance(*value);
}

Result<std::vector<Instance>> decode_instances(const json::value& value) {
  std::vector<Instance> out;
  const json::object* object = value.if_object();
  const json::value* all = object != nullptr ? object->if_contains("sandboxes") : nullptr;
  if (all == nullptr || !all->is_array()) return fail(Code::Internal, "answer of sandboxd: /sandboxes is missing");
  for (const json::value& each : all->get_array()) {
    auto instance = decode_instance(each);
    if (!instance) return Failure(instance.error());
    out.push_back(std::move(*instance));
  }
  return out;
}

Result<void> done(const Result<json::value>& answer) {
  if (!answer) return Failure(answer.error());
  return {};
}

Result<void> tell(Observer& observer, const json::value& line) {
  api::ObjectReader reader(line, {});
  const std::string type = reader.required_string("type");
  if (type == "all") {
    auto instances = decode_instances(line);
    if (!instances) return Failure(instances.error());
    observer.on_all(std::move(*instances));
  } else if (type == "changed") {
    const json::value* sandbox = reader.find("sandbox");
    if (sandbox == nullptr) return fail(Code::Internal, "stream of sandboxd: /sandbox is missing");
    auto instance = decode_instance(*sandbox);
    if (!instance) return Failure(instance.error());
    observer.on_change(std::move(*instance));
  } else if (type == "removed") {
    std::string id = reader.required_string("id");
    // A create that failed says why: the server that asked for it may have been restarted since.
    if (auto message = reader.optional_string("message").value_or(""); !message.empty()) {
      Instance failed;
      failed.id = id;
      failed.state = InstanceState::Ended;
      failed.reason = reader.optional_string("reason").value_or("");
      failed.message = std::move(message);
      observer.on_change(std::move(failed));
    }
    observer.on_removed(std::move(id));
  }
  return reader.finish();
}

}  // namespace

Result<void> NativeLifecycle::check(const api::CreateSandbox& create) const {
  const SandboxSpec spec{"check", std::make_shared<const api::CreateSandbox>(create), ""};
  if (auto native = to_native(spec); !native) return Failure(native.error());
  return {};
}

net::awaitable<Result<Instance>> NativeLifecycle::create(SandboxSpec spec) {
  auto native = to_native(spec);
  if (!native) co_return Failure(native.error());
  native->runtime = runtime_;
  std::string body = json::serialize(native::encode(*native, native::Secrets::Include));
  const auto answer = co_await daemon_.call("POST", "/v1/sandboxes", std::move(body), Patience::Unlimited);
  co_return decode_instance(answer);
}

net::awaitable<Result<Instance>> NativeLifecycle::inspect(std::string id) {
  const auto answer = co_await daemon_.call("GET", path_of(id));
  co_return decode_instance(answer);
}

net::awaitable<Result<std::vector<Instance>>> NativeLifecycle::list() {
  const auto answer = co_await daemon_.call("GET", "/v1/sandboxes");
  if (!answer) co_return Failure(answer.error());
  co_return decode_instances(*answer);
}

net::awaitable<void> NativeLifecycle::watch(Observer& observer) {
  look_again_.emplace(co_await net::this_coro::executor);
  Backoff pause(kFirstRetry, kLastRetry);
  for (;;) {
    const auto ended = co_await daemon_.lines("GET", "/v1/events", "", [&](const json::value& line) {
      pause.reset();
      return tell(observer, line);
    });
    observer.on_lost(ended ? Error(Code::Unavailable, "sandboxd ended the stream of events") : ended.error());
    const auto woken = co_await (look_again_->wait() || sleep_for(pause.next()));
    if (!std::visit([](bool slept) { return slept; }, woken)) co_return;
  }
}

void NativeLifecycle::look_again() {
  if (look_again_) look_again_->notify_all();
}

net::awaitable<Result<void>> NativeLifecycle::pause(std::string id) {
  const auto answer = co_await daemon_.call("POST", path_of(id, "/pause"));
  co_return done(answer);
}

net::awaitable<Result<void>> NativeLifecycle::resume(std::string id) {
  const auto answer = co_await daemon_.call("POST", path_of(id, "/resume"));
  co_return done(answer);
}

net::awaitable<Result<void>> NativeLifecycle::remove(std::string id) {
  const auto answer = co_await daemon_.call("DELETE", path_of(id), "", Patience::Unlimited);
  if (!answer && answer.error().code == Code::NotFound) co_return Result<void>();
  co_return done(answer);
}

net::awaitable<Result<ResourceUse>> NativeLifecycle::stats(std::string id) {
  const auto answer = co_await daemon_.call("GET", path_of(id, "/stats"));
  if (!answer) co_return Failure(answer.error());
  const auto stats = native::decode_stats(*answer);
  if (!stats) co_return with_context("answer of sandboxd", stats.error());
  co_return ResourceUse{.cpu_usec = stats->cpu_usec,
                        .memory_bytes = stats->memory_bytes,
                        .memory_peak_bytes = stats->memory_peak_bytes,
                        .memory_limit_bytes = stats->memory_limit_bytes,
                        .pids = stats->pids,
                        .disk_bytes = stats->disk_bytes,
                        .oom_kills = stats->oom_kills};
}

}  // namespace osb::runtime
