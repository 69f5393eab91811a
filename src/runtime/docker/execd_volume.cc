#include "runtime/docker/execd_volume.h"

#include <chrono>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/lifecycle_error.h"
#include "archive/tar_entry.h"
#include "async/race.h"
#include "base/id.h"
#include "base/log.h"
#include "http/url.h"
#include "runtime/docker/container.h"
#include "runtime/docker/engine_json.h"

namespace osb::runtime {

using namespace race;

namespace {

namespace json = boost::json;

constexpr std::string_view kHome = "/opt/opensandbox";
constexpr std::string_view kInside = "/opt/opensandbox-stage";  // where the helper sees the volume
constexpr std::string_view kVolume = "opensandbox-execd-";
constexpr std::string_view kHelper = "sandbox-execd-";
constexpr std::chrono::minutes kForgotten(1);
constexpr std::size_t kMaxFile = 512 << 20;

Failure failed(Code code, std::string_view reason, const Error& why) {
  if (why.code == Code::Unavailable || why.code == Code::Cancelled) return Failure(why);
  return api::refuse(code, reason, why.message);
}

std::vector<FileMount> mounts_from(const std::string& directory) {
  std::vector<FileMount> out;
  for (const char* name : {"/execd", "/bootstrap.sh"}) out.push_back({directory + name, std::string(kHome) + name});
  return out;
}

// An archive of one empty file: the last thing put into a volume.
std::string empty_file_tar(std::string_view name) {
  archive::TarEntry entry;
  entry.path = name;
  entry.mode = 0444;
  std::string out;
  archive::append_tar_header(out, entry);
  out.append(archive::kTarEndBytes, '\0');
  return out;
}

}  // namespace

bool ExecdVolume::may_be(std::string_view volume) { return volume.empty() || volume.starts_with(kVolume); }

net::awaitable<Result<std::vector<FileMount>>> ExecdVolume::mounts(std::optional<api::Platform> platform,
                                                                   Interest interest) {
  if (image_.starts_with('/')) co_return mounts_from(image_);
  const std::string key = platform ? platform->os + "/" + platform->arch : "";
  for (auto found = staged_.find(key); found != staged_.end(); found = staged_.find(key)) {
    const std::shared_ptr<Staged> staged = found->second;
    (void)co_await (staged->done.wait() || interest.changed.wait_until(interest.given_up));
    if (interest.given_up()) co_return fail(Code::Cancelled, "no create waits for execd any more");
    if (!staged->done.is_set()) co_return fail(Code::Cancelled, "the server is ending");
    // The create that did the work was cancelled: this one goes on.
    if (staged->mounts || staged->mounts.error().code != Code::Cancelled) co_return staged->mounts;
  }
  const auto staged = std::make_shared<Staged>(context_.executor);
  staged_[key] = staged;
  const struct Done {
    ExecdVolume& self;
    const std::string& key;
    const std::shared_ptr<Staged>& staged;
    ~Done() {
      if (!staged->mounts && self.staged_.contains(key) && self.staged_[key] == staged) self.staged_.erase(key);
      staged->done.set();
    }
  } done{*this, key, staged};
  staged->mounts = co_await make_mounts(std::move(platform), std::move(interest));
  co_return staged->mounts;
}

net::awaitable<Result<std::vector<FileMount>>> ExecdVolume::make_mounts(std::optional<api::Platform> platform,
                                                                        Interest interest) {
  constexpr std::string_view kStartFailed = "DOCKER::SANDBOX_EXECD_START_FAILED";
  Images::Wanted wanted{.name = image_, .platform = std::move(platform), .login = {}};
  const auto id = co_await images_.ensure(std::move(wanted), std::move(interest));
  if (!id) co_return failed(Code::Unavailable, kStartFailed, id.error());
  const std::string volume = std::string(kVolume) + id->substr(id->find(':') + 1, 16);
  EngineClient::Call call{.method = "POST", .target = "/volumes/create"};
  call.body = json::object{{"Name", volume}, {"Labels", json::object{{label::kManagedVolumes, "server"}}}};
  const auto made = co_await engine_.call(std::move(call));
  if (!made) co_return failed(Code::Internal, "DOCKER::SANDBOX_EXECD_DISTRIBUTION_FAILED", made.error());
  const std::string directory = engine::text(*made, {"Mountpoint"});
  if (directory.empty()) {
    co_return api::refuse(Code::Internal, "DOCKER::SANDBOX_EXECD_DISTRIBUTION_FAILED",
                          "volume " + volume + " has no directory");
  }
  if (auto filled = co_await fill(*id, volume); !filled) co_return Failure(filled.error());
  log_info("execd is staged", {{"image", image_}, {"volume", volume}});
  co_return mounts_from(directory);
}

// Removes helpers of servers that were killed. A helper in use lives for a second.
net::awaitable<void> ExecdVolume::remove_forgotten() {
  for (const std::string& name : std::exchange(stranded_, {})) co_await remove_helper(name);
  const json::object wanted{{"name", json::array{kHelper}}, {"status", json::array{"created"}}};
  const auto found = co_await engine_.call(
      {.target = "/containers/json?all=1&filters=" + http::percent_encode(json::serialize(wanted))});
  if (!found || !found->is_array()) co_return;
  const auto oldest = std::chrono::system_clock::to_time_t(context_.clock.now() - kForgotten);
  for (const json::value& each : found->get_array()) {
    const auto names = engine::string_list(each, {"Names"});
    if (names.empty() || !names.front().starts_with("/" + std::string(kHelper))) continue;
    if (engine::number(each, {"Created"}) > oldest) continue;
    co_await remove_helper(names.front().substr(1));
  }
}

net::awaitable<void> ExecdVolume::remove_helper(std::string name) {
  const auto removed = co_await engine_.call({.method = "DELETE", .target = "/containers/" + name + "?force=1"});
  if (removed || removed.error().code == Code::NotFound) co_return;
  log_warn("helper container not removed", {{"container", name}, {"error", removed.error().message}});
  stranded_.push_back(std::move(name));
}

net::awaitable<Result<void>> ExecdVolume::fill(std::string image_id, std::string volume) {
  co_await remove_forgotten();
  // To the end, also when the server is ending: nothing else knows of the helper.
  co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
  auto copied = co_await copy_by_helper(std::move(image_id), std::move(volume));
  co_await net::this_coro::reset_cancellation_state(net::enable_terminal_cancellation());
  co_return copied;
}

net::awaitable<Result<void>> ExecdVolume::copy_by_helper(std::string image_id, std::string volume) {
  const std::string name = std::string(kHelper) + new_uuid();
  EngineClient::Call call{.method = "POST", .target = "/containers/create?name=" + name};
  call.body = json::object{{"Image", image_id},
                           {"Entrypoint", json::array{"tail", "-f", "/dev/null"}},
                           {"NetworkDisabled", true},
                           {"HostConfig", json::object{{"NetworkMode", "none"},
                                                       {"Binds", json::array{volume + ":" + std::string(kInside)}}}}};
  const auto made = co_await engine_.call(std::move(call));
  if (!made) {
    if (made.error().code == Code::Unavailable) stranded_.push_back(name);  // it is not known whether it was made
    co_return failed(Code::Unavailable, "DOCKER::SANDBOX_EXECD_START_FAILED", made.error());
  }
  auto copied = co_await copy_files("/containers/" + name);
  co_await remove_helper(name);
  co_return copied;
}

net::awaitable<Result<void>> ExecdVolume::copy_files(std::string container) {
  const std::string archive = container + "/archive?path=";
  const std::string into = archive + http::percent_encode(kInside);
  if (const auto complete = co_await engine_.bytes(into + http::percent_encode("/complete"), kMaxFile)) {
    co_return Result<void>();
  } else if (complete.error().code == Code::Unavailable) {
    co_return Failure(complete.error());
  }
  for (const char* name : {"/execd", "/bootstrap.sh"}) {
    const std::string_view reason = std::string_view(name) == "/execd" ? "DOCKER::SANDBOX_EXECD_DISTRIBUTION_FAILED"
                                                                       : "DOCKER::SANDBOX_BOOTSTRAP_INSTALL_FAILED";
    auto file = co_await engine_.bytes(archive + http::percent_encode(name), kMaxFile);
    if (!file) co_return failed(Code::Internal, reason, with_context(image_ + name, file.error()).error());
    if (auto put = co_await engine_.put(into, "application/x-tar", std::move(*file)); !put) {
      co_return failed(Code::Internal, reason, put.error());
    }
  }
  auto put = co_await engine_.put(into, "application/x-tar", empty_file_tar("complete"));
  if (!put) co_return failed(Code::Internal, "DOCKER::SANDBOX_EXECD_DISTRIBUTION_FAILED", put.error());
  co_return Result<void>();
}

}  // namespace osb::runtime
