#include "runtime/native/native_ports.h"

#include "base/ports.h"
#include "runtime/native/native_connector.h"

namespace osb::runtime {

Route NativePorts::route(std::uint16_t port) const {
  if (port == kExecdPort && !execd_socket_.empty()) return {"unix:" + execd_socket_, ""};
  if (!address_.empty()) return {address_ + ":" + std::to_string(port), ""};
  return {std::string(kHandedOver) + id_ + "/" + std::to_string(port), ""};
}

ClientRoute NativePorts::client_route(std::uint16_t port) const {
  return {address_.empty() ? "" : address_ + ":" + std::to_string(port), port == kExecdPort};
}

}  // namespace osb::runtime
