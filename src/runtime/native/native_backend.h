#pragma once

#include <chrono>
#include <string>

#include "runtime/backend.h"
#include "runtime/native/native_images.h"
#include "runtime/native/native_lifecycle.h"
#include "runtime/native/native_logs.h"
#include "runtime/native/native_snapshots.h"
#include "runtime/native/sandboxd_client.h"

namespace osb::runtime {

// Sandboxes of this host, made by sandboxd, the root daemon behind a Unix socket.
class NativeBackend final : public Backend {
 public:
  // `runtime`: sandboxd runs sandboxes with it; "" is sandboxd's default, else one of its OCI runtimes.
  NativeBackend(std::string socket, std::chrono::milliseconds timeout, std::string runtime = "");

  const Capabilities& capabilities() const override { return capabilities_; }
  NativeLifecycle& lifecycle() override { return lifecycle_; }
  std::unique_ptr<http::Connector> connector() override;
  NativeLogs* logs() override { return &logs_; }
  NativeSnapshots* snapshots() override { return &snapshots_; }
  NativeImages* images() override { return &images_; }

 private:
  const Capabilities capabilities_;
  SandboxdClient daemon_;
  NativeLifecycle lifecycle_;
  NativeLogs logs_{daemon_};
  NativeSnapshots snapshots_{daemon_};
  NativeImages images_{daemon_};
};

}  // namespace osb::runtime
