#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "async/blocking_pool.h"
#include "async/net.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "image/layer_store.h"
#include "image/registry_client.h"

namespace osb::image {

struct PullProgress {
  enum class Stage { Downloading, Unpacking, Done };
  Digest layer;  // diff id
  Stage stage;
  std::uint64_t bytes = 0;  // of the compressed layer
  std::uint64_t total = 0;
};

struct PullOptions {
  RegistryAccess access;
  Platform platform = host_platform();
  std::size_t parallel = 4;  // layers at a time
  UnpackOptions unpack;
  std::function<void(const PullProgress&)> progress;  // on the executor; must not throw
  std::function<Result<void>()> admit = nullptr;  // asked before each layer, on the executor; a failure ends the pull
};

// Images from registries into the store. Layers that are there already are not asked for; a layer that several pulls
// need at once is downloaded by one of them. Lives on one executor; store, client and pool outlive it.
class Puller {
 public:
  Puller(net::any_io_executor executor, http::Client& client, BlockingPool& pool, LayerStore& store);

  // Records the image under its name when all its layers are there; before that nothing is visible. When it is
  // cancelled, layers that are being worked on are finished or given up in the background.
  net::awaitable<Result<ImageRecord>> pull(Reference reference, PullOptions options);

  // Awaited before the object goes; pulls that still run end with Code::Cancelled.
  net::awaitable<void> close() {
    closed_ = true;
    return tasks_.close();
  }

 private:
  struct Job;
  net::awaitable<void> work(std::shared_ptr<Job> job);
  net::awaitable<Result<LayerStore::Lease>> layer(std::shared_ptr<Job> job, std::size_t index);
  net::awaitable<Result<LayerStore::Lease>> fetch(std::shared_ptr<Job> job, std::size_t index);
  net::awaitable<Result<LayerStore::Lease>> fetch_into(std::filesystem::path file, std::shared_ptr<Job> job,
                                                       std::size_t index);

  net::any_io_executor executor_;
  http::Client& client_;
  BlockingPool& pool_;
  LayerStore& store_;
  TaskGroup tasks_;
  bool closed_ = false;
  std::set<Digest> in_work_;  // diff ids
  Notifier changed_;
};

}  // namespace osb::image
