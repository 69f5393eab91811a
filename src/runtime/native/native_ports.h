#pragma once

#include <string>

#include "runtime/instance.h"

namespace osb::runtime {

// Ports of a sandbox of this host: execd by its Unix socket, others by the sandbox's address, or, where it has none, by
// a connected socket that sandboxd hands over (native_connector.h).
class NativePorts final : public PortMap {
 public:
  // `address` and `execd_socket` may be "".
  NativePorts(std::string id, std::string address, std::string execd_socket)
      : id_(std::move(id)), address_(std::move(address)), execd_socket_(std::move(execd_socket)) {}

  Route route(std::uint16_t port) const override;
  ClientRoute client_route(std::uint16_t port) const override;

 private:
  std::string id_, address_, execd_socket_;
};

}  // namespace osb::runtime
