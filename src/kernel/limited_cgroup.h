#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sys/cgroup.h"

namespace osb::kernel {

class CgroupController;
struct CgroupLayout;

// An absent value means no limit (in update(): the limit stays as it is).
struct Limits {
  std::optional<std::uint64_t> memory_bytes = {};  // without swap: beyond it processes are killed, not paged out
  std::optional<std::uint64_t> cpu_millis = {};    // 1000 is one CPU
  std::optional<std::uint64_t> pids = {};          // processes and threads
  struct Io {
    dev_t device = 0;  // of io_device()
    std::optional<std::uint64_t> read_bytes_per_second = {};
    std::optional<std::uint64_t> write_bytes_per_second = {};  // v1 counts only writes that bypass the page cache
    std::optional<std::uint64_t> reads_per_second = {};
    std::optional<std::uint64_t> writes_per_second = {};  // as above
    bool operator==(const Io&) const = default;
  };
  std::optional<Io> io = {};

  bool operator==(const Limits&) const = default;
};

inline constexpr std::uint64_t kSmallestMemory = 6 << 20;  // below, not even the first process starts
inline constexpr std::uint64_t kSmallestCpuMillis = 10;    // the kernel's smallest quota: 1 ms in 100 ms
inline constexpr std::uint64_t kLargestCpuMillis = 1'000'000;
inline constexpr std::uint64_t kSmallestPids = 8;
inline constexpr std::uint64_t kLargestPids = 4 << 20;  // pid_max of 64-bit kernels

// Code::InvalidRequest names a limit that is too small or too large to work.
Result<void> check_limits(const Limits& limits);

// The disk that holds `path`, as io limits want it (a partition counts as its disk). Code::Unsupported for file systems
// that are not on one disk (overlay, btrfs, tmpfs, network).
Result<dev_t> io_device(const std::string& path);

// The usage of a cgroup, as far as the host's controllers report it.
struct CgroupUsage {
  std::uint64_t cpu_usec = 0;
  std::optional<std::uint64_t> memory_bytes;        // with page cache
  std::optional<std::uint64_t> memory_peak_bytes;   // needs Linux 5.19 on v2
  std::optional<std::uint64_t> memory_limit_bytes;  // absent also when there is no limit
  std::optional<std::uint64_t> pids;
  std::optional<std::uint64_t> io_read_bytes;  // on v1 only with an io limit
  std::optional<std::uint64_t> io_write_bytes;
  std::uint64_t oom_kills = 0;  // members killed because this limit, a limit above or the host had no memory left
  std::optional<std::uint64_t> memory_limit_hits;  // times that this limit left no memory; v1 does not tell

  // Whether this limit was the reason for kills, as far as is known: on v1, whether it was ever reached.
  bool reached_memory_limit() const;
};

// Descriptors for a process that starts in a cgroup. Order: clone with CLONE_INTO_CGROUP and `v2_directory`, then the
// still single-threaded child writes "0" to each of `v1_tasks` (none on a pure v2 host). Moving it from outside would
// wait for an RCU period. All are close-on-exec.
struct CgroupJoin {
  UniqueFd v2_directory;
  std::vector<UniqueFd> v1_tasks;
};

// One cgroup with limits: a directory in the v2 hierarchy, which freezes, kills and tells about life, and one more in
// each v1 hierarchy whose controller v2 does not have. A value that names it: the cgroup stays when the object goes.
// All calls block (microseconds, or until their time is up), may come from any thread, and need the LimitedCgroups it
// came from no longer.
class LimitedCgroup {
 public:
  const std::string& id() const { return id_; }
  std::string v2_directory() const;
  sys::Cgroup v2() const { return {v2_directory(), sys::Cgroup::Kind::V2}; }

  Result<CgroupJoin> open_join() const;

  // The directories (O_PATH) that members may see at /sys/fs/cgroup: {{"", the v2 one}} on a v2 host, else one for each
  // v1 controller by its name.
  Result<std::vector<std::pair<std::string, UniqueFd>>> open_view() const;

  // Files that say what the cgroup uses and may use (cpu.stat, memory.current or memory.usage_in_bytes, ..), as the
  // kernel names them, and their paths.
  using StatFiles = std::vector<std::pair<std::string, std::string>>;
  StatFiles stat_files() const;
  // Those of stat_files() that are not in the directories of open_view(), open for reading: cpu.stat where controllers
  // of v1 are in use.
  std::vector<std::pair<std::string, UniqueFd>> open_hidden_stats() const;

  // Code::InvalidRequest or Code::Unsupported as for create() (on v1 also for io when it had no such limit at first);
  // Code::Conflict when more memory is in use than the new
  // limit allows: an update kills no process.
  Result<void> update(const Limits& limits) const;

  // Returns when all members stand still (or run again). If one does not in time, all are thawed: Code::Timeout.
  Result<void> freeze(bool on, std::chrono::milliseconds limit = std::chrono::seconds(10)) const;
  Result<bool> frozen() const;

  // SIGKILL to all members, also frozen ones and those that are just being forked. Returns before they have ended.
  // No process can be started in the cgroup after this.
  Result<void> kill() const { return v2().kill(); }

  Result<bool> populated() const;  // any live member, here or below
  // True when the last member has ended; false when the time is up.
  Result<bool> wait_empty(std::chrono::milliseconds limit) const { return v2().wait_empty(limit); }

  // With cgroups that members made below. Code::Conflict while there are live members. A cgroup that is gone is a
  // success, and a removal that failed can be repeated: the v2 directory, by which list() finds it, goes last.
  Result<void> remove() const;

  Result<CgroupUsage> usage() const;
  Result<std::uint64_t> oom_kills() const;  // of usage()

 private:
  friend class LimitedCgroups;
  LimitedCgroup(std::shared_ptr<const CgroupLayout> layout, std::string id)
      : layout_(std::move(layout)), id_(std::move(id)) {}
  Result<void> make(bool with_io) const;

  std::shared_ptr<const CgroupLayout> layout_;
  std::string id_;
};

// All cgroups of one owner, children of one parent in every hierarchy in use.
class LimitedCgroups {
 public:
  // Looks at the host once. `parent` ("opensandbox", "machine.slice/opensandbox") is taken from the top of each
  // hierarchy that can be seen, so that a restarted daemon finds its cgroups wherever it was started from; with
  // systemd's DelegateSubgroup=daemon from the delegated unit instead. On v2 the controllers are handed down to the
  // parent; where "no internal processes" forbids it (in a container), the processes at the top move to a leaf `daemon`
  // first. A host without a cgroup2 mount gets one of our own, visible to this process only.
  static Result<LimitedCgroups> open(std::string_view parent, const sys::CgroupSources& sources = {});

  // Code::Conflict if it exists. Code::InvalidRequest names a limit that cannot be met, Code::Unsupported a controller
  // that is missing. After a failure nothing is left.
  Result<LimitedCgroup> create(const std::string& id, const Limits& limits) const;
  Result<LimitedCgroup> open_existing(const std::string& id) const;  // Code::NotFound
  std::vector<std::string> view_names() const;                       // of LimitedCgroup::open_view()
  std::vector<std::string> list() const;                             // also half-made and half-removed ones

  // The limits of all cgroups together: memory, cpu and pids. An absent value takes such a limit away. Errors as of
  // LimitedCgroup::update(); Code::Conflict leaves the limit as it was, and later calls may succeed.
  Result<void> limit_all(const Limits& limits) const;
  CgroupUsage usage_of_all() const;  // memory, pids and oom_kills, as far as the host's controllers report them

  // For `sandboxd check`.
  struct Support {
    bool memory = false, swap = false, cpu = false, pids = false,
         io = false;          // swap: it is accounted, so it can be forbidden
    bool huge_pages = false;  // they are forbidden
    std::string mode;         // "v2", "hybrid"
  };
  Support support() const;
  // Removes the parent when it is empty: a daemon that goes for good, and tests.
  Result<void> remove_parent() const;

 private:
  explicit LimitedCgroups(std::shared_ptr<const CgroupLayout> layout) : layout_(std::move(layout)) {}
  std::shared_ptr<const CgroupLayout> layout_;
};

// Sets every limit of huge pages and of their reservations in a cgroup's directory to 0. `suffix`: ".max" of v2,
// ".limit_in_bytes" of v1. False: there is no such file.
bool forbid_huge_pages(const std::string& directory, std::string_view suffix);

}  // namespace osb::kernel
