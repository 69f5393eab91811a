#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "async/timer.h"
#include "runtime/docker/containers.h"
#include "runtime/docker/create_body.h"
#include "runtime/docker/docker_context.h"
#include "runtime/docker/docker_network.h"
#include "runtime/docker/docker_volumes.h"
#include "runtime/docker/execd_volume.h"
#include "runtime/docker/images.h"
#include "runtime/docker/port_pool.h"
#include "runtime/docker/sidecars.h"

namespace osb::runtime {

// Creates: from a request to a container whose execd has answered, and back again when something fails. Its arguments
// outlive it.
class DockerCreates {
 public:
  DockerCreates(DockerContext& context, Containers& containers, Images& images, ExecdVolume& execd_volume,
                PortPool& ports, DockerNetwork& network, Sidecars& sidecars)
      : context_(context),
        containers_(containers),
        images_(images),
        execd_volume_(execd_volume),
        ports_(ports),
        network_(network),
        sidecars_(sidecars) {}

  net::awaitable<Result<Instance>> create(SandboxSpec spec);
  // Ends a create that is under way; returns when it is over. False: cancelled.
  net::awaitable<bool> give_up(std::string id);
  bool is_under_way(const std::string& id) const { return creating_.contains(id); }
  // The engine says whether the container of a create has ended. Ids without a create are ignored.
  void note_end(const std::string& id, bool ended = true);

  // Removes half-made containers of creates that failed because the engine was away.
  net::awaitable<void> undo_leftovers();
  // Volumes of such a create, nullptr when there is none: it may have made volumes and no container.
  const std::vector<std::string>* leftover_volumes(const std::string& id) const;
  void forget_leftovers(const std::string& id) { leftovers_.erase(id); }
  // Removes a container that an earlier process made and never started, with its volumes.
  net::awaitable<void> remove_abandoned(std::string id, std::vector<std::string> volumes);

 private:
  // A create under way.
  struct Creation {
    explicit Creation(net::any_io_executor executor) : changed(executor), over(executor) {}
    Notifier changed;       // one of the flags was set
    bool given_up = false;  // removed meanwhile
    bool died = false;      // its container has ended, or is gone
    Event over;
  };
  // Everything that a create has made so far.
  struct Made {
    bool container = false;
    bool sidecar = false;
    bool network = false;  // one of its own, maybe
    std::vector<std::uint16_t> ports;
    DockerVolumes volumes;
    std::string execd;  // where execd is mounted from
  };

  // References belong to create(), which waits.
  net::awaitable<Result<Instance>> make(SandboxSpec spec, Creation& creation, Made& made);
  net::awaitable<Result<void>> prepare(const SandboxSpec& spec, Creation& creation, Made& made, ContainerPlan& plan);
  // Removes the containers of an earlier try with a policy: a sandbox that was started waits for a sidecar that is
  // gone.
  net::awaitable<Result<void>> remove_earlier(std::string id);
  // The engine's id of it.
  net::awaitable<Result<std::string>> make_container(const SandboxSpec& spec, Creation& creation, Made& made,
                                                     ContainerPlan plan);
  net::awaitable<Result<void>> check_mounts(const Container& container, const DockerVolumes& volumes);
  net::awaitable<Result<Instance>> wait_for_execd(std::string id, Creation& creation);
  net::awaitable<void> undo(std::string id, Made made);
  Interest interest_of(const std::string& id, Creation& creation);

  DockerContext& context_;
  Containers& containers_;
  Images& images_;
  ExecdVolume& execd_volume_;
  PortPool& ports_;
  DockerNetwork& network_;
  Sidecars& sidecars_;
  std::unordered_map<std::string, std::shared_ptr<Creation>> creating_;
  std::unordered_map<std::string, Made> leftovers_;  // of creates that failed while the engine was away
};

}  // namespace osb::runtime
