#pragma once

#include <set>
#include <string>

#include "async/timer.h"
#include "runtime/docker/containers.h"
#include "runtime/docker/docker_context.h"
#include "runtime/snapshots.h"

namespace osb::runtime {

// Snapshots are images that the engine commits. Its arguments outlive it.
class DockerSnapshots final : public Snapshots {
 public:
  DockerSnapshots(DockerContext& context, Containers& containers)
      : context_(context), containers_(containers), reconnected_(context.executor) {}

  net::awaitable<Result<void>> create(SnapshotSpec spec) override;
  net::awaitable<Result<bool>> exists(std::string snapshot) override;
  net::awaitable<Result<void>> remove(std::string snapshot) override;
  net::awaitable<Result<std::shared_ptr<http::BodySource>>> export_archive(std::string snapshot) override;

  // The engine is back. An engine that ends in the middle of a snapshot forgets to let its container go on.
  net::awaitable<void> thaw_all();
  // And everything in it was listed.
  void note_reconnected() { reconnected_.notify_all(); }

 private:
  net::awaitable<Result<bool>> look_again(std::string snapshot);
  net::awaitable<void> unpause(std::string id);

  DockerContext& context_;
  Containers& containers_;
  Notifier reconnected_;
  std::set<std::string> frozen_;  // containers, by snapshots that the engine did not live to end
};

}  // namespace osb::runtime
