#include "runtime/native/native_backend.h"

#include "runtime/native/native_connector.h"

namespace osb::runtime {
namespace {

Capabilities native_capabilities() {
  Capabilities out;
  out.backend = "NATIVE";
  out.daemon = "sandboxd";
  out.no_network_policy = "the native backend does not enforce network policies yet";
  out.no_credential_proxy = "the native backend has no credential proxy yet";
  out.no_secure_access = "secure access needs the kubernetes backend with a gateway";
  out.no_windows = "the native backend runs linux only";
  return out;
}

}  // namespace

NativeBackend::NativeBackend(std::string socket, std::chrono::milliseconds timeout, std::string runtime)
    : capabilities_(native_capabilities()),
      daemon_(std::move(socket), timeout),
      lifecycle_(daemon_, std::move(runtime)) {}

std::unique_ptr<http::Connector> NativeBackend::connector() { return make_native_connector(daemon_.socket()); }

}  // namespace osb::runtime
