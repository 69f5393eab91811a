// Snapshots are images that the engine commits.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "http/url.h"
#include "runtime/docker/docker_backend.h"
#include "runtime/labels.h"

namespace osb::runtime {

namespace json = boost::json;
using Call = EngineClient::Call;

namespace {

std::string image_path(const std::string& snapshot, std::string_view rest = "") {
  return "/images/" + http::percent_encode(snapshot_image(snapshot), ":") + std::string(rest);
}

}  // namespace

net::awaitable<Result<void>> DockerBackend::create_snapshot(std::string sandbox, std::string snapshot) {
  const auto container = co_await inspect_container(sandbox);
  if (!container) co_return Failure(container.error());
  // The image inherits the container's labels and environment, and so would whatever is made of it. They cannot be
  // left out, only replaced by nothing.
  json::object labels;
  for (const auto& [name, value] : container->labels) {
    if (name.starts_with(label::kPrefix) || has_metadata_name(name)) labels[name] = "";
  }
  Call call{.method = "POST", .patience = EngineClient::Patience::Unlimited};
  call.target = "/commit?container=" + container->id +
                "&repo=opensandbox-snapshots&tag=" + http::percent_encode(snapshot) + "&pause=1";
  call.body = json::object{{"Labels", std::move(labels)}, {"Env", json::array{std::string(kTokenVariable) + "="}}};
  const struct Frozen {
    DockerBackend& self;
    const std::string& id;
    Frozen(DockerBackend& s, const std::string& i) : self(s), id(i) { ++self.known_[id].snapshots; }
    ~Frozen() {
      const auto known = self.known_.find(id);
      if (known == self.known_.end()) return;
      --known->second.snapshots;
      self.refresh(id);
    }
  } frozen(*this, sandbox);
  const auto made = co_await engine_->call(std::move(call));
  if (made) co_return Result<void>();
  if (made.error().code != Code::Unavailable) co_return Failure(made.error());
  // The engine ended over it, and may have made the image before.
  frozen_.insert(sandbox);
  if (!co_await reconnected_.wait()) co_return fail(Code::Cancelled, "the server is ending");
  const auto there = co_await has_snapshot(std::move(snapshot));
  if (there && *there) co_return Result<void>();
  co_return Failure(made.error());
}

net::awaitable<Result<bool>> DockerBackend::has_snapshot(std::string snapshot) {
  const auto answer = co_await engine_->call({.target = image_path(snapshot, "/json")});
  if (answer) co_return true;
  if (answer.error().code == Code::NotFound) co_return false;
  co_return Failure(answer.error());
}

net::awaitable<Result<void>> DockerBackend::remove_snapshot(std::string snapshot) {
  const auto answer = co_await engine_->call({.method = "DELETE", .target = image_path(snapshot)});
  if (!answer && answer.error().code != Code::NotFound) co_return Failure(answer.error());
  co_return Result<void>();
}

net::awaitable<Result<std::shared_ptr<http::BodySource>>> DockerBackend::export_snapshot(std::string snapshot) {
  Call call{.target = image_path(snapshot, "/get"), .patience = EngineClient::Patience::Unlimited};
  auto archive = co_await engine_->body(std::move(call));
  if (!archive) co_return Failure(archive.error());
  co_return std::shared_ptr<http::BodySource>(std::move(*archive));
}

}  // namespace osb::runtime
