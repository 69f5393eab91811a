#include "runtime/docker/images.h"

#include <algorithm>

#include "api/lifecycle_error.h"
#include "async/race.h"
#include "base/text.h"
#include "http/url.h"
#include "image/reference.h"
#include "runtime/docker/engine_json.h"
#include "runtime/docker/engine_stream.h"
#include "runtime/docker/registry_login.h"

namespace osb::runtime {

using namespace race;
namespace json = boost::json;

namespace {

constexpr std::string_view kPullFailed = "DOCKER::SANDBOX_IMAGE_PULL_FAILED";

Failure pull_failed(const std::string& name, const Error& why) {
  if (why.code == Code::Unavailable || why.code == Code::Cancelled) return Failure(why);
  return api::refuse(Code::Internal, kPullFailed, "image " + name + ": " + why.message);
}

bool matches(const api::Platform& there, const api::Platform& wanted) {
  if (wanted.os.empty() || there.os.empty()) return true;
  return there.os == wanted.os && normal_architecture(there.arch) == normal_architecture(wanted.arch);
}

}  // namespace

std::string normal_architecture(std::string_view name) {
  std::string out = lower(name);
  if (out == "x86_64" || out == "x86-64") return "amd64";
  if (out == "aarch64" || out == "arm64/v8" || out == "arm64v8") return "arm64";
  return out;
}

struct Images::Pull {
  explicit Pull(net::any_io_executor executor) : changed(executor), abandoned(executor) {}
  Notifier changed;
  Event abandoned;  // no create waits for it any more
  std::string text = "pulling";
  std::optional<Result<void>> outcome;
  int waiters = 0;
};

net::awaitable<Result<std::optional<Images::Found>>> Images::look_up(std::string name) {
  auto answer = co_await engine_.call({.target = "/images/" + http::percent_encode(name, "/:@") + "/json"});
  if (!answer) {
    if (answer.error().code == Code::NotFound) co_return std::optional<Found>();
    co_return pull_failed(name, answer.error());
  }
  Found found;
  found.id = engine::text(*answer, {"Id"});
  if (!found.id.starts_with("sha256:")) found.id = "sha256:" + found.id;  // Podman leaves it out
  found.platform = {engine::text(*answer, {"Os"}), engine::text(*answer, {"Architecture"})};
  co_return std::optional(std::move(found));
}

net::awaitable<Result<std::string>> Images::ensure(Wanted wanted, Interest interest) {
  const api::Platform platform = wanted.platform.value_or(engine_platform_);
  if (const auto known = known_.find(wanted.name); known != known_.end() && matches(known->second.platform, platform)) {
    co_return known->second.id;
  }
  auto found = co_await look_up(wanted.name);
  if (!found) co_return Failure(found.error());
  bool pulled = false;
  if (wanted.pull && (!*found || !matches((*found)->platform, platform))) {
    std::string text;
    if ((*found || wanted.platform) && !platform.os.empty()) text = platform.os + "/" + platform.arch;
    auto done = co_await pull(wanted, std::move(text), std::move(interest));
    if (!done) co_return pull_failed(wanted.name, done.error());
    found = co_await look_up(wanted.name);
    if (!found) co_return Failure(found.error());
    pulled = true;
  }
  if (!*found) co_return pull_failed(wanted.name, Error(Code::NotFound, pulled ? "it is gone again" : "no such image"));
  if (!matches((*found)->platform, platform)) {
    co_return pull_failed(
        wanted.name, Error(Code::InvalidRequest, "it is for " + (*found)->platform.os + "/" + (*found)->platform.arch +
                                                     ", not for " + platform.os + "/" + platform.arch));
  }
  std::string id = (*found)->id;
  known_[wanted.name] = std::move(**found);
  co_return id;
}

net::awaitable<Result<void>> Images::pull(Wanted wanted, std::string platform, Interest interest) {
  const auto reference = image::Reference::parse(wanted.name);
  if (!reference) co_return Failure(reference.error());
  auto auth = registry_auth(wanted.name, wanted.login, credentials_);
  if (!auth) co_return Failure(auth.error());
  const std::string key = reference->to_string() + " " + platform + " " + *auth;
  std::shared_ptr<Pull>& entry = pulls_[key];
  if (!entry || entry->outcome || entry->waiters == 0) {
    entry = std::make_shared<Pull>(executor_);
    tasks_.spawn("pull image", run_pull(wanted.name, std::move(platform), std::move(*auth), entry));
  }
  const std::shared_ptr<Pull> pull = entry;
  const struct Waiter {
    Images& self;
    const std::string& key;
    const std::shared_ptr<Pull>& pull;
    Waiter(Images& s, const std::string& k, const std::shared_ptr<Pull>& p) : self(s), key(k), pull(p) { ++p->waiters; }
    ~Waiter() {
      if (--pull->waiters > 0) return;
      pull->abandoned.set();
      if (const auto found = self.pulls_.find(key); found != self.pulls_.end() && found->second == pull) {
        self.pulls_.erase(found);
      }
    }
  } waiter(*this, key, pull);
  std::string told;
  while (!pull->outcome) {
    if (interest.given_up()) co_return fail(Code::Cancelled, "no create waits for the image any more");
    if (pull->text != told) interest.progress(told = pull->text);
    // Looks once more, for what happens before || has begun to wait.
    const auto news = [&] { return pull->outcome || pull->text != told || interest.given_up(); };
    (void)co_await (pull->changed.wait_until(news) || interest.changed.wait_until(news));
  }
  co_return *pull->outcome;
}

net::awaitable<void> Images::run_pull(std::string name, std::string platform, std::string auth,
                                      std::shared_ptr<Pull> pull) {
  // Leaving the stream ends the pull; the engine drops what it has half of.
  auto outcome =
      co_await (follow_pull(std::move(name), std::move(platform), std::move(auth), pull) || pull->abandoned.wait());
  pull->outcome = outcome.index() == 0 ? std::move(std::get<0>(outcome))
                                       : fail(Code::Cancelled, "no create waits for the image any more");
  known_.clear();
  pull->changed.notify_all();
}

net::awaitable<Result<void>> Images::follow_pull(std::string name, std::string platform, std::string auth,
                                                 std::shared_ptr<Pull> pull) {
  const auto reference = image::Reference::parse(name);
  if (!reference) co_return Failure(reference.error());
  // "docker.io/library/debian" and its tag, or the digest in the tag's place; without a tag the engine takes them all.
  const std::string repository = reference->registry + "/" + reference->repository;
  EngineClient::Call call{.method = "POST", .patience = EngineClient::Patience::Unlimited};
  call.target = "/images/create?fromImage=" + http::percent_encode(repository) +
                "&tag=" + http::percent_encode(reference->manifest_name());
  if (!platform.empty()) call.target += "&platform=" + http::percent_encode(platform);
  if (!auth.empty()) call.headers.set("X-Registry-Auth", auth);
  auto stream = co_await engine_.stream(std::move(call));
  if (!stream) co_return Failure(stream.error());
  PullProgress progress;
  for (;;) {
    auto line = co_await (*stream)->next();
    if (!line) co_return Failure(line.error());
    if (line->is_null()) co_return Result<void>();
    std::string error = engine::text(*line, {"errorDetail", "message"});
    if (error.empty()) error = engine::text(*line, {"error"});
    if (!error.empty()) co_return fail(Code::Internal, error);
    if (progress.take(*line)) {
      pull->text = progress.text();
      pull->changed.notify_all();
    }
  }
}

}  // namespace osb::runtime
