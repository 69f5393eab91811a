#pragma once

#include <map>
#include <string>
#include <vector>

#include "http/body.h"
#include "sandboxd/image/image_service.h"
#include "sandboxd/sandbox/sandbox_context.h"
#include "sandboxd/snapshot/snapshot_store.h"

namespace osb::sandboxd {

// Snapshots of sandboxes. It holds the layers of images that they stand on.
class SandboxSnapshots {
 public:
  SandboxSnapshots(const SandboxContext& context, ImageService& images, SnapshotStore& store)
      : context_(context), images_(images), store_(store) {}

  // At start: holds the layers of all snapshots.
  void recover();

  net::awaitable<Result<api::native::Snapshot>> capture(std::string sandbox, std::string id);
  std::vector<api::native::Snapshot> list() const;
  Result<api::native::Snapshot> inspect(const std::string& id) const;
  net::awaitable<Result<void>> remove(std::string id);  // Code::Conflict while a sandbox stands on it

  // Comes before send(): errors still reach the client. Code::Unsupported: a snapshot of the host's image, whose /usr
  // is not part of it. Code::Exhausted: too many archives are being sent.
  net::awaitable<Result<ImageService::TransferPermit>> send_permit(std::string id);
  // Writes an OCI archive of it into `body`.
  net::awaitable<Result<void>> send(std::string id, http::BodyWriter& body, ImageService::TransferPermit permit);

  // The snapshot as an image: its own layers on top of its image's.
  Result<SandboxBase> base(const std::string& id) const;

 private:
  const SandboxContext& context_;
  ImageService& images_;
  SnapshotStore& store_;
  std::map<std::string, std::vector<image::LayerStore::Lease>> leases_;  // by snapshot
};

}  // namespace osb::sandboxd
