#pragma once

#include <string>

#include "async/timer.h"
#include "runtime/docker/containers.h"
#include "runtime/docker/docker_context.h"
#include "runtime/docker/docker_creates.h"
#include "runtime/docker/docker_network.h"
#include "runtime/docker/docker_snapshots.h"
#include "runtime/docker/engine_stream.h"
#include "runtime/docker/execd_volume.h"
#include "runtime/docker/images.h"

namespace osb::runtime {

// Follows the engine's stream of events, so that nothing is polled. After the stream was lost everything is listed
// once. Its arguments outlive it.
class DockerWatch {
 public:
  struct Parts {
    Containers& containers;
    DockerCreates& creates;
    DockerSnapshots& snapshots;
    DockerNetwork& network;
    Sidecars& sidecars;
    Images& images;
    ExecdVolume& execd_volume;
  };
  DockerWatch(DockerContext& context, Parts parts) : context_(context), parts_(parts), look_again_(context.executor) {}

  // Tells the observer until it is cancelled.
  net::awaitable<void> run(Observer& observer);
  // Ends the pause before the next try to reach an engine that is away.
  void look_again() { look_again_.notify_all(); }
  // Lists every container, with the state it has now.
  net::awaitable<Result<void>> take_stock();

 private:
  net::awaitable<Error> follow_events(Observer& observer);
  net::awaitable<Result<std::vector<std::string>>> list_sandboxes();
  net::awaitable<void> fill_execd_volume();
  net::awaitable<void> remove_network(std::string id, bool has_sidecar);
  void on_event(const EngineEvent& event);
  void on_container_event(const EngineEvent& event);
  // If the sandbox runs.
  void revive_sidecar(const std::string& id);

  DockerContext& context_;
  const Parts parts_;
  Notifier look_again_;
  std::string since_;  // time of the last event
};

}  // namespace osb::runtime
