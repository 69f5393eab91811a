#pragma once

#include <optional>
#include <string>
#include <vector>

#include "async/blocking_pool.h"
#include "async/net.h"
#include "async/timer.h"
#include "base/clock.h"
#include "containerd/client.h"
#include "containerd/commit/command_line.h"
#include "containerd/commit/committed_image.h"
#include "containerd/commit/paused_tasks.h"
#include "http/client.h"
#include "image/registry_client.h"

namespace osb::containerd {

struct Committed {
  std::string container, image;
  image::Digest digest;  // of the manifest
};

// Saves containers of one pod as images. The order is the contract's: pause all, save all, resume all, push all.
// However it ends, the containers run again and nothing but finished images stays in containerd; a run that is killed
// leaves that to the next run for the same images, or to unpause().
class Committer {
 public:
  struct Tools {
    Client& client;
    http::Client& http;
    BlockingPool& pool;
    const Clock& clock;
    Event& stop;  // set: end soon, with Code::Cancelled
  };
  // All tools outlive it. `credentials` is the text of a file of `docker login`.
  Committer(Tools tools, CommandLine line, std::optional<std::string> credentials);

  net::awaitable<Result<std::vector<Committed>>> run();
  // Success also for containers that are gone.
  net::awaitable<Result<void>> unpause();

 private:
  struct Job {
    CommitTarget target;
    Container container;
    SnapshotInfo snapshot;
    BaseImage base;
    bool paused = false;
    std::optional<NewLayer> layer;
    CommittedImage image;
  };

  net::awaitable<Result<void>> save_all();
  net::awaitable<Result<void>> push_all();
  net::awaitable<Result<std::vector<Container>>> containers_of(std::string name);
  net::awaitable<Result<Container>> find_container(std::string name);
  net::awaitable<Result<void>> prepare(Job& job);
  net::awaitable<Result<void>> save_layer(Job& job);
  net::awaitable<Result<NewLayer>> make_layer(const Job& job);
  net::awaitable<Result<void>> save_image(Job& job);
  net::awaitable<Result<void>> clean_up();
  // The work's result, or Cancelled as soon as somebody has told us to stop.
  template <typename T>
  net::awaitable<Result<T>> unless_stopped(net::awaitable<Result<T>> work);

  Tools tools_;
  const CommandLine line_;
  const std::optional<std::string> credentials_;
  const std::string lease_;  // the same for each run for these images
  PausedTasks tasks_;
  std::vector<Job> jobs_;
};

}  // namespace osb::containerd
