#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/docker/container_wall.h"
#include "runtime/docker/docker_context.h"

namespace osb::runtime {

// The network that sandboxes are put in.
//
// network_mode `bridge` means a bridge on which sandboxes do not reach each other. Docker: one network for all of them,
// with traffic between containers turned off. It is made when it is missing, found again by its name and label, shared
// by all servers of the engine, and removed by none. Podman has no such switch: each sandbox gets an isolated network
// that goes with it. On both, a server that is root on the engine's machine closes everything but the internet
// (container_wall.h). [docker] isolate_network = false: the engine's own bridge. Other modes are taken as they are.
class DockerNetwork {
 public:
  // `open`: why sandboxes reach more than the internet; "" when they do not. It is kept up to date.
  DockerNetwork(DockerContext& context, std::string& open) : context_(context), open_(open) {}

  // A network that the operator named and made.
  bool is_user_defined() const;
  // Looks for the network; call it when the engine's networks have changed.
  net::awaitable<void> look();
  // Why it cannot be used; "" when it can.
  const std::string& missing() const { return missing_; }

  // The name of the network for a new sandbox, made if it is not there.
  net::awaitable<Result<std::string>> ensure(std::string sandbox);
  // The sandbox's container has been started: whether its bridge is one that the wall is for.
  void check(const std::string& sandbox);
  // The next ensure() looks again.
  void forget() { ready_ = false; }
  // Removes what belongs to one sandbox alone. Its container is gone.
  net::awaitable<void> release(std::string sandbox);
  // Removes networks of sandboxes that are not in `living`. Young ones stay: their create may be under way, also in
  // another server.
  net::awaitable<void> sweep(std::vector<std::string> living);

 private:
  enum class Kind { AsNamed, Shared, PerSandbox };
  Kind kind() const;
  net::awaitable<Result<void>> make_shared();
  net::awaitable<void> raise_wall(std::string table, std::string bridges);
  net::awaitable<void> keep_wall();
  void note_open(const std::string& reason);
  net::awaitable<Result<void>> make_own(std::string sandbox);

  DockerContext& context_;
  std::string missing_;
  bool ready_ = false;  // the shared network was seen
  std::string& open_;
  std::optional<ContainerWall> wall_;  // the one that stands
};

// Of the network that all sandboxes of a Docker engine share.
inline constexpr std::string_view kSharedNetwork = "opensandbox-isolated";
// Label of networks that a server made: "shared", or the id of the sandbox that it belongs to.
inline constexpr std::string_view kNetworkLabel = "opensandbox.io/network";

}  // namespace osb::runtime
