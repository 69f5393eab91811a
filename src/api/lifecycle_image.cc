#include "api/lifecycle_image.h"

#include "api/lifecycle_error.h"
#include "base/json_escape.h"

namespace osb::api {
namespace {

void append_image(std::string& out, const StoredImage& image) {
  out += R"({"uri":)";
  append_json_string(out, image.uri);
  if (!image.digest.empty()) {
    out += R"(,"digest":)";
    append_json_string(out, image.digest);
  }
  if (image.platform) {
    out += R"(,"platform":{"os":)";
    append_json_string(out, image.platform->os);
    out += R"(,"arch":)";
    append_json_string(out, image.platform->arch);
    out += '}';
  }
  if (image.size_bytes) out += R"(,"sizeBytes":)" + std::to_string(*image.size_bytes);
  if (image.created_at != Timestamp{}) out += R"(,"createdAt":")" + format_timestamp(image.created_at) + '"';
  out += '}';
}

std::string event(std::string_view type, std::int64_t unix_ms) {
  return R"({"type":")" + std::string(type) + R"(","timestamp":)" + std::to_string(unix_ms);
}

}  // namespace

Result<PullImage> decode_pull_image(std::string_view body) {
  const auto value = parse_lifecycle_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kLifecycleReading);
  PullImage out;
  out.image = read_image(r);
  if (out.image.uri.empty()) r.reject("uri", "must not be blank");
  r.object("platform", [&](ObjectReader& platform) { out.platform = read_platform(platform); });
  if (auto done = finish_schema(r); !done) return Failure(done.error());
  return out;
}

std::string encode_image(const StoredImage& image) {
  std::string out;
  append_image(out, image);
  return out;
}

std::string encode_image_list(std::span<const StoredImage> images) {
  std::string out = R"({"items":[)";
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (i > 0) out += ',';
    append_image(out, images[i]);
  }
  out += "]}";
  return out;
}

std::string encode_pull_progress(std::int64_t unix_ms, const PullProgress& progress) {
  std::string out = event("progress", unix_ms) + R"(,"phase":)";
  append_json_string(out, progress.phase);
  if (!progress.layer.empty()) {
    out += R"(,"layer":)";
    append_json_string(out, progress.layer);
  }
  out += R"(,"currentBytes":)" + std::to_string(progress.current_bytes);
  if (progress.total_bytes) out += R"(,"totalBytes":)" + std::to_string(*progress.total_bytes);
  out += '}';
  return out;
}

std::string encode_pull_complete(std::int64_t unix_ms, const StoredImage& image) {
  return event("complete", unix_ms) + R"(,"image":)" + encode_image(image) + "}";
}

std::string encode_pull_error(std::int64_t unix_ms, const Error& error) {
  return event("error", unix_ms) + R"(,"error":)" + encode_error(error) + "}";
}

}  // namespace osb::api
