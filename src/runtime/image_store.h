#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/lifecycle_image.h"
#include "async/net.h"
#include "base/error.h"
#include "http/body.h"

namespace osb::runtime {

// Images of a backend that keeps its own.
class ImageStore {
 public:
  virtual ~ImageStore() = default;
  virtual net::awaitable<Result<std::vector<api::StoredImage>>> list() = 0;
  // `progress` is called on the loop until the image is there.
  virtual net::awaitable<Result<api::StoredImage>> pull(api::PullImage image,
                                                        std::function<void(const api::PullProgress&)> progress) = 0;
  // A `docker save` or OCI archive; `name` replaces the names in it unless "".
  virtual net::awaitable<Result<std::vector<api::StoredImage>>> load(std::shared_ptr<http::BodySource> archive,
                                                                     std::string name) = 0;
  virtual net::awaitable<Result<void>> remove(std::string name, bool force) = 0;
};

}  // namespace osb::runtime
