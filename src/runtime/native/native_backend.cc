#include "runtime/native/native_backend.h"

#include "runtime/native/native_connector.h"

namespace osb::runtime {
namespace {

Capabilities native_capabilities() {
  Capabilities out;
  out.backend = "NATIVE";
  out.daemon = "sandboxd";
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
