#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/lifecycle_create.h"
#include "base/error.h"
#include "base/time.h"

// The additive /images routes of the native backend.
namespace osb::api {

struct PullImage {
  ImageSpec image;
  std::optional<Platform> platform;
};
Result<PullImage> decode_pull_image(std::string_view body);

struct StoredImage {
  std::string uri;
  std::string digest;  // "" is left out
  std::optional<Platform> platform;
  std::optional<std::uint64_t> size_bytes;
  Timestamp created_at{};  // zero is left out: image `host` was never added
};
std::string encode_image(const StoredImage& image);
std::string encode_image_list(std::span<const StoredImage> images);

struct PullProgress {
  std::string phase;  // resolve, download or unpack
  std::string layer;  // "" is left out
  std::uint64_t current_bytes = 0;
  std::optional<std::uint64_t> total_bytes;
};
// Lines of the pull's event stream; exactly one complete or error line ends it.
std::string encode_pull_progress(std::int64_t unix_ms, const PullProgress& progress);
std::string encode_pull_complete(std::int64_t unix_ms, const StoredImage& image);
std::string encode_pull_error(std::int64_t unix_ms, const Error& error);

}  // namespace osb::api
