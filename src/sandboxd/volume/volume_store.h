#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "sandboxd/disk/disk_trees.h"
#include "sandboxd/launch/launch_plan.h"
#include "sandboxd/volume/check_volumes.h"
#include "sandboxd/volume/host_ids.h"
#include "sys/disk_reserve.h"

namespace osb::sandboxd {

struct VolumeConfig {
  // Named volumes: <state>/volumes. Must be a file system that can be idmapped (ext4, xfs, btrfs, tmpfs from 6.3 on).
  std::filesystem::path directory;

  // Paths of the host that sandboxes may see, with everything below them. None by default. Symbolic links in them are
  // resolved once, when the store is opened.
  std::vector<std::filesystem::path> allowed_host_paths;

  // Our own files: neither they nor a directory above them can be a volume, even if allowed.
  std::vector<std::filesystem::path> own_directories;

  // Owners of the files of a host path.
  HostIds host_ids = HostIds::Owner;
  // With HostIds::Owner: the host's ids of files whose owner inside is nobody on the host, 65,536 of them.
  std::uint32_t file_ids = 14 * 65'536;

  sys::DiskReserve reserve;        // new volumes leave it free
  DiskTrees trees;                 // below `directory`
  std::uint64_t volume_bytes = 0;  // limit of a new volume; 0: none

  // Tests end the process or change the world here: called with the name of each step that has just been done.
  std::function<void(std::string_view step)> after_step;
};

// Ready to be attached. Keep it (without the mounts) as long as the sandbox lives, or until you count its volumes
// yourself in remove(): while it exists the volumes cannot be removed.
struct PreparedVolumes {
  std::vector<PreparedMount> mounts;   // parents before what lies below them
  std::vector<std::string> created;    // named volumes that this request made
  std::vector<std::string> to_delete;  // of those, the ones to remove() when the sandbox has ended
  std::shared_ptr<void> in_use;
};

// The volumes of sandboxes. VolumeStore says what the calls promise; tests have an implementation of their own.
class Volumes {
 public:
  virtual ~Volumes() = default;
  virtual Result<PreparedVolumes> prepare(std::span<const Volume> specs, int userns, std::uint32_t id_base) = 0;
  virtual std::shared_ptr<void> hold(std::span<const std::string> names) = 0;
  virtual Result<std::vector<std::string>> list() const = 0;
  virtual Result<void> remove(const std::string& name, std::size_t sandboxes) = 0;
};

// Checks and opens what sandboxes mount, and keeps named volumes:
//
//   <directory>/<name>   the files; ids on disk are those inside sandboxes (0..65535)
//   <directory>/.tmp/    what is being made or removed; emptied by open()
//
// All calls block and may come from any thread. The directory belongs to root alone (0700): sandboxes can leave setuid
// files in it.
class VolumeStore final : public Volumes {
 public:
  static Result<std::unique_ptr<VolumeStore>> open(VolumeConfig config);
  ~VolumeStore() override;

  // Opens every volume as a detached mount, always nosuid and nodev, private, read-only with all mounts below it if
  // asked. `userns` is the sandbox's user namespace, `id_base` the host's id of root inside.
  //
  // A host path is resolved first (no magic links as in /proc/self/root), the real path is checked against the allowed
  // ones, and then opened once more without following any link: the checked directory is mounted, even if the path is
  // swapped meanwhile. Sub-paths are opened beneath their volume: links inside may be followed, none leads out.
  //
  // A failure removes the named volumes that this request made. Besides check_volumes:
  //   VOLUME::HOST_PATH_NOT_ALLOWED      not in the list, really elsewhere, our own state, neither directory nor
  //                                      regular file, or open to other users (HostIds::Same)
  //   VOLUME::HOST_PATH_NOT_FOUND        missing, and not to be made
  //   VOLUME::HOST_PATH_CREATE_FAILED    missing, and could not be made
  //   VOLUME::PVC_NOT_FOUND              no such volume, and not to be made
  //   VOLUME::INVALID_SUB_PATH           leads out, is missing and not to be made, or is neither directory nor regular
  //                                      file
  //   VOLUME::UNSUPPORTED_BACKEND        the file system cannot be idmapped (overlay, proc, most network ones)
  Result<PreparedVolumes> prepare(std::span<const Volume> specs, int userns, std::uint32_t id_base) override;

  // For a sandbox that outlived an earlier daemon: these volumes are in use as long as the returned object exists.
  std::shared_ptr<void> hold(std::span<const std::string> names) override;

  Result<std::vector<std::string>> list() const override;  // by name
  // Durable. Code::Conflict: it exists. VOLUME::INVALID_PVC_NAME.
  Result<void> create(const std::string& name);
  // `sandboxes`: how many use it (besides those whose PreparedVolumes exist); more than 0 is Code::Conflict. A missing
  // one is Code::NotFound, VOLUME::PVC_NOT_FOUND.
  Result<void> remove(const std::string& name, std::size_t sandboxes) override;

 private:
  struct State;
  explicit VolumeStore(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace osb::sandboxd
