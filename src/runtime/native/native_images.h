#pragma once

#include "runtime/image_store.h"
#include "runtime/native/sandboxd_client.h"

namespace osb::runtime {

// Images that sandboxd keeps, and this host's own userland as image "host". sandboxd outlives this.
class NativeImages final : public ImageStore {
 public:
  explicit NativeImages(SandboxdClient& daemon) : daemon_(daemon) {}
  net::awaitable<Result<std::vector<api::StoredImage>>> list() override;
  net::awaitable<Result<api::StoredImage>> pull(api::PullImage image,
                                                std::function<void(const api::PullProgress&)> progress) override;
  net::awaitable<Result<std::vector<api::StoredImage>>> load(std::shared_ptr<http::BodySource> archive,
                                                             std::string name) override;
  net::awaitable<Result<void>> remove(std::string name, bool force) override;

 private:
  SandboxdClient& daemon_;
};

}  // namespace osb::runtime
