#pragma once

#include "runtime/native/sandboxd_client.h"
#include "runtime/snapshots.h"

namespace osb::runtime {

// Snapshots that sandboxd keeps. It outlives this.
class NativeSnapshots final : public Snapshots {
 public:
  explicit NativeSnapshots(SandboxdClient& daemon) : daemon_(daemon) {}
  net::awaitable<Result<void>> create(SnapshotSpec spec) override;
  net::awaitable<Result<bool>> exists(std::string snapshot) override;
  net::awaitable<Result<void>> remove(std::string snapshot) override;
  net::awaitable<Result<std::shared_ptr<http::BodySource>>> export_archive(std::string snapshot) override;

 private:
  SandboxdClient& daemon_;
};

}  // namespace osb::runtime
