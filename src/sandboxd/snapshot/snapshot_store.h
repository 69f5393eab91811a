#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "image/digest.h"
#include "sys/disk_reserve.h"

namespace osb::sandboxd {

// The base of the captured sandbox, so that another one can be made the same way.
struct SnapshotBase {
  std::string image;                    // its name
  std::string config;                   // the image's configuration (JSON), as it came
  std::vector<image::Digest> diff_ids;  // the image's layers, lowest first
  std::vector<std::string> snapshots;   // snapshots whose layers lie above the image's, lowest first
};

struct SnapshotInfo {
  std::string id;
  SnapshotBase base;
  std::int64_t created = 0;  // seconds since 1970
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;  // of this snapshot's own layer, as kernel::CopiedTree counts
};

// Called around the copy, on the calling thread. thaw() is called exactly once for each freeze() that succeeded, also
// when the copy fails.
struct FreezeHooks {
  std::function<Result<void>()> freeze;
  std::function<Result<void>()> thaw;
};

struct CaptureTimes {
  double frozen_ms = 0;
  double total_ms = 0;  // with the sync
};

struct SnapshotStoreOptions {
  unsigned copy_threads = 2;
  // Of all layers together, hidden ones too.
  std::uint64_t max_bytes = UINT64_MAX;
  std::uint64_t max_entries = UINT64_MAX;
  sys::DiskReserve reserve = {};  // captures leave it free
  // Tests end the process here: called with the name of each step that has just been done.
  std::function<void(std::string_view step)> after_step = nullptr;
};

inline constexpr const char* kSnapshotLimit = "NATIVE::SNAPSHOT_LIMIT";

// Snapshots on disk: the upper directory of a sandbox, captured as a layer for overlayfs.
//
//   <id>/root           the tree, a lower directory
//   <id>/snapshot.json
//   .tmp/               what is being made or removed; emptied by open()
//
// A snapshot is built in .tmp/, synced and renamed: a snapshot with a name is complete, also after a power cut. A
// snapshot of a sandbox that was made from a snapshot needs that one's layer too. Removing a snapshot that others need
// hides it (get, list and layers of it answer as if it were gone); its layer goes with the last that needs it.
//
// All calls block and may come from any thread. The directory belongs to root alone (0700): sandboxes can leave setuid
// files in it. One process at a time: the daemon's lock on its state directory sees to that.
class SnapshotStore {
 public:
  // Makes the directory if needed, clears away what a crash left, reads what is there. A snapshot whose record cannot
  // be read is logged and treated as missing; its files are left alone for the operator.
  static Result<std::unique_ptr<SnapshotStore>> open(std::filesystem::path directory,
                                                     SnapshotStoreOptions options = {});
  ~SnapshotStore();

  // Captures the open directory `upper` under `id` (a UUID). Frozen as long as the copy takes; the sync to disk happens
  // after the thaw, and a returned snapshot survives a power cut. A failure leaves nothing behind. Code::Conflict: the
  // id exists or is being made. Code::NotFound: a snapshot of `base` is missing. Code::Exhausted: the snapshots would
  // take more than their limit (kSnapshotLimit), or than the disk's reserve leaves. `times`, if given, is filled in
  // also on failure.
  Result<SnapshotInfo> capture(const std::string& id, const SnapshotBase& base, int upper, const FreezeHooks& hooks,
                               CaptureTimes* times = nullptr);

  std::vector<SnapshotInfo> list() const;                 // oldest first
  Result<SnapshotInfo> get(const std::string& id) const;  // Code::NotFound, SNAPSHOT::NOT_FOUND

  // The snapshot's lower directories, top first; the image's layers (base.diff_ids) belong below them.
  Result<std::vector<std::filesystem::path>> layers(const std::string& id) const;

  // Durable when it returns. `sandboxes`: how many were made from it and still exist; more than 0 is Code::Conflict
  // (SNAPSHOT::DELETE_CONFLICT), as is one that is just being captured from. An unknown id is Code::NotFound.
  Result<void> remove(const std::string& id, std::size_t sandboxes);

  // Layers of images that snapshots stand on, hidden ones too: not for collection.
  std::set<image::Digest> image_layers() const;

  // Bytes of all layers, hidden ones too.
  std::uint64_t bytes() const;

 private:
  struct State;
  explicit SnapshotStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace osb::sandboxd
