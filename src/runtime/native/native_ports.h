#pragma once

#include <string>

#include "runtime/instance.h"

namespace osb::runtime {

// Ports of a sandbox of this host: execd by its Unix socket, others by the sandbox's address, or, where it has none, by
// a connected socket that sandboxd hands over (native_connector.h). The policy API of a sandbox with a network policy
// is not in the sandbox: sandboxd hands over a socket to it, and clients reach it by the server only.
class NativePorts final : public PortMap {
 public:
  // `address` and `execd_socket` may be "".
  NativePorts(std::string id, std::string address, std::string execd_socket, bool has_policy = false)
      : id_(std::move(id)),
        address_(std::move(address)),
        execd_socket_(std::move(execd_socket)),
        has_policy_(has_policy) {}

  Route route(std::uint16_t port) const override;
  ClientRoute client_route(std::uint16_t port) const override;

 private:
  bool is_policy_api(std::uint16_t port) const;

  std::string id_, address_, execd_socket_;
  bool has_policy_;
};

}  // namespace osb::runtime
