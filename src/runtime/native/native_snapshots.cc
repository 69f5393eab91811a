#include "runtime/native/native_snapshots.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "http/url.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;
using Patience = SandboxdClient::Patience;

std::string path_of(const std::string& snapshot) { return "/v1/snapshots/" + http::percent_encode(snapshot); }

}  // namespace

net::awaitable<Result<void>> NativeSnapshots::create(SnapshotSpec spec) {
  std::string body = json::serialize(json::object{{"id", spec.id}});
  const auto answer =
      co_await daemon_.call("POST", "/v1/sandboxes/" + http::percent_encode(spec.sandbox) + "/snapshots",
                            std::move(body), Patience::Unlimited);
  if (!answer) co_return Failure(answer.error());
  co_return Result<void>();
}

net::awaitable<Result<bool>> NativeSnapshots::exists(std::string snapshot) {
  const auto answer = co_await daemon_.call("GET", path_of(snapshot));
  if (answer) co_return true;
  if (answer.error().code == Code::NotFound) co_return false;
  co_return Failure(answer.error());
}

net::awaitable<Result<void>> NativeSnapshots::remove(std::string snapshot) {
  const auto answer = co_await daemon_.call("DELETE", path_of(snapshot), "", Patience::Unlimited);
  if (!answer && answer.error().code != Code::NotFound) co_return Failure(answer.error());
  co_return Result<void>();
}

net::awaitable<Result<std::shared_ptr<http::BodySource>>> NativeSnapshots::export_archive(std::string snapshot) {
  return daemon_.download(path_of(snapshot) + "/export");
}

}  // namespace osb::runtime
