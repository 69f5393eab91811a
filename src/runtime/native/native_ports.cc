#include "runtime/native/native_ports.h"

#include "base/ports.h"
#include "runtime/native/native_connector.h"

namespace osb::runtime {

bool NativePorts::is_policy_api(std::uint16_t port) const { return has_policy_ && port == kEgressPort; }

Route NativePorts::route(std::uint16_t port) const {
  if (port == kExecdPort && !execd_socket_.empty()) return {"unix:" + execd_socket_, ""};
  if (!address_.empty() && !is_policy_api(port)) return {address_ + ":" + std::to_string(port), ""};
  return {std::string(kHandedOver) + id_ + "/" + std::to_string(port), ""};
}

ClientRoute NativePorts::client_route(std::uint16_t port) const {
  return {address_.empty() || is_policy_api(port) ? "" : address_ + ":" + std::to_string(port), port == kExecdPort};
}

}  // namespace osb::runtime
