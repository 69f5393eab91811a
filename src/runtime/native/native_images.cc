#include "runtime/native/native_images.h"

#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "http/url.h"
#include "runtime/native/native_spec.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;
namespace native = api::native;

Result<std::vector<api::StoredImage>> decode_images(const Result<json::value>& answer) {
  if (!answer) return Failure(answer.error());
  const json::object* object = answer->if_object();
  const json::value* all = object != nullptr ? object->if_contains("images") : nullptr;
  if (all == nullptr || !all->is_array()) return fail(Code::Internal, "answer of sandboxd: /images is missing");
  std::vector<api::StoredImage> out;
  for (const json::value& each : all->get_array()) {
    const auto image = native::decode_image(each);
    if (!image) return with_context("answer of sandboxd", image.error());
    out.push_back(to_stored_image(*image));
  }
  return out;
}

api::PullProgress decode_progress(api::ObjectReader& reader) {
  api::PullProgress out;
  const std::string stage = reader.optional_string("stage").value_or("");
  out.phase = stage == "downloading" ? "download" : "unpack";
  out.layer = reader.optional_string("layer").value_or("");
  out.current_bytes = static_cast<std::uint64_t>(reader.optional_int64("bytes", 0).value_or(0));
  if (const auto total = reader.optional_int64("total", 0)) out.total_bytes = static_cast<std::uint64_t>(*total);
  return out;
}

}  // namespace

net::awaitable<Result<std::vector<api::StoredImage>>> NativeImages::list() {
  const auto answer = co_await daemon_.call("GET", "/v1/images");
  auto images = decode_images(answer);
  // This host's own userland, which needs no download.
  if (images) images->insert(images->begin(), api::StoredImage{"host", "", std::nullopt, std::nullopt, Timestamp{}});
  co_return images;
}

net::awaitable<Result<api::StoredImage>> NativeImages::pull(api::PullImage image,
                                                            std::function<void(const api::PullProgress&)> progress) {
  json::object body{{"name", image.image.uri}};
  if (image.image.auth) {
    body["login"] = json::object{{"username", image.image.auth->username}, {"password", image.image.auth->password}};
  }
  Result<api::StoredImage> outcome = fail(Code::Unavailable, "sandboxd ended before the image was there");
  const auto ended = co_await daemon_.lines(
      "POST", "/v1/images/pull", json::serialize(body), [&](const json::value& line) -> Result<void> {
        api::ObjectReader reader(line, {});
        const std::string type = reader.required_string("type");
        if (type == "layer") {
          progress(decode_progress(reader));
        } else if (type == "image" && reader.find("image") != nullptr) {
          const auto made = native::decode_image(*reader.find("image"));
          if (!made) return Failure(made.error());
          outcome = to_stored_image(*made);
        } else if (type == "error") {
          Error error(Code::Internal, reader.optional_string("message").value_or("the pull failed"));
          error.reason = "NATIVE::SANDBOX_IMAGE_PULL_FAILED";
          outcome = Failure(std::move(error));
        }
        return reader.finish();
      });
  if (!ended && outcome) co_return outcome;
  if (!ended && outcome.error().code == Code::Unavailable) co_return Failure(ended.error());
  co_return outcome;
}

net::awaitable<Result<std::vector<api::StoredImage>>> NativeImages::load(std::shared_ptr<http::BodySource> archive,
                                                                         std::string name) {
  std::string target = "/v1/images/load";
  if (!name.empty()) target += "?name=" + http::percent_encode(name);
  const auto answer = co_await daemon_.upload(std::move(target), std::move(archive));
  co_return decode_images(answer);
}

net::awaitable<Result<void>> NativeImages::remove(std::string name, bool force) {
  const auto answer =
      co_await daemon_.call("DELETE", "/v1/images?name=" + http::percent_encode(name) + (force ? "&force=true" : ""));
  if (answer) co_return Result<void>();
  Error error = answer.error();
  if (error.code == Code::NotFound) error.reason = "NATIVE::IMAGE_NOT_FOUND";
  if (error.code == Code::Conflict) error.reason = "NATIVE::IMAGE_IN_USE";
  co_return Failure(std::move(error));
}

}  // namespace osb::runtime
