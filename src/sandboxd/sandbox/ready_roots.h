#pragma once

#include <compare>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "sandboxd/launch/launch_plan.h"
#include "sandboxd/network/slot_pool.h"
#include "sandboxd/sandbox/ready_directories.h"

namespace osb::sandboxd {

// Sandboxes of the same kind can use each other's roots. Layers are compared by their inodes on disk: a layer that was
// removed and pulled again is another one.
struct RootKind {
  struct Layer {
    std::string path;
    dev_t device = 0;
    ino_t inode = 0;
    std::time_t changed = 0;
    long changed_nanos = 0;
    bool operator==(const Layer&) const = default;
  };
  bool host = false;          // HostRoot
  std::vector<Layer> layers;  // top first
  NetworkMode network = NetworkMode::Bridge;
  bool operator==(const RootKind&) const = default;

  static Result<RootKind> of(const std::vector<std::string>& layers, bool host, NetworkMode network);
};

struct ReadyRoot {
  RootKind kind;
  Slot slot;
  std::string directory;  // of ReadyDirectories, without a name yet
  Stage stage;
};

// A root for the next sandbox of the kind that was wanted last: with its slot, its directory, and all mounts that do
// not depend on the request. That is half of the work of a create before execd runs. It is made after an answer was
// given, and dies with the process. Layers are not held for it: if a layer is removed, the root is useless, not wrong.
//
// Any thread, several at a time. The parts outlive it.
class ReadyRoots {
 public:
  ReadyRoots(Slots& slots, ReadyDirectories& directories, std::uint64_t shm_bytes, std::vector<std::string> cgroup_view)
      : slots_(slots), directories_(directories), shm_bytes_(shm_bytes), cgroup_view_(std::move(cgroup_view)) {}
  ~ReadyRoots() { (void)drop(); }

  // Nothing: there is none of this kind.
  std::optional<ReadyRoot> take(const RootKind& kind);
  // Sets the kind that refill() makes next. refill() blocks.
  void want(RootKind kind);
  void refill();
  // Gives the slot of a root that is ready, or being made, back to the pool: a create needs the last one. False: there
  // was none.
  bool drop();
  void give_back(ReadyRoot root);

 private:
  Result<ReadyRoot> make(RootKind kind);

  Slots& slots_;
  ReadyDirectories& directories_;
  const std::uint64_t shm_bytes_;
  const std::vector<std::string> cgroup_view_;
  std::mutex mutex_;  // what follows
  std::optional<RootKind> wanted_;
  std::optional<ReadyRoot> ready_;
  bool making_ = false;
  std::condition_variable made_;
};

// The root directory is seen with the owner and mode of the topmost layer, which is the new one.
Result<void> copy_root_mode(const std::string& lower, const std::string& upper);

}  // namespace osb::sandboxd
