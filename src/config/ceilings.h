#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::config {

// The size of the machine that has the sandboxes; ceilings are derived from it. 0 is unknown.
struct MachineSize {
  std::uint64_t memory_bytes = 0;
  std::uint64_t cpus = 0;
  std::uint64_t pids = 0;                                            // that the kernel gives at once
  std::uint64_t disk_bytes = 0;                                      // of the file system with the sandboxes
  std::uint64_t network_slots = 0;                                   // one sandbox each
  std::uint64_t memory_per_sandbox = 4 << 20, pids_per_sandbox = 4;  // of an idle one, on the host
};

// Rates of reading and writing of one sandbox. 0 is no limit.
struct IoRates {
  std::int64_t read_bps = 0, write_bps = 0, read_iops = 0, write_iops = 0;
  bool operator==(const IoRates&) const = default;
};

// One kind of rate: its name in `resourceLimits`, the end of its settings' names, its field.
struct IoRate {
  std::string_view limit;
  std::string_view setting;
  std::int64_t IoRates::* field;
  std::int64_t most;  // that the kernel can count
  bool bytes;         // else operations

  std::string default_setting() const { return "default_" + std::string(setting); }
  std::string max_setting() const { return "max_" + std::string(setting); }
  std::string about_default() const;
  std::string about_max() const;
};
inline constexpr std::int64_t kMostBps = std::int64_t{1} << 60, kMostIops = 0xffffffff;
inline constexpr std::array<IoRate, 4> kIoRates{
    {{"io-read-bps", "io_read_bps", &IoRates::read_bps, kMostBps, true},
     {"io-write-bps", "io_write_bps", &IoRates::write_bps, kMostBps, true},
     {"io-read-iops", "io_read_iops", &IoRates::read_iops, kMostIops, false},
     {"io-write-iops", "io_write_iops", &IoRates::write_iops, kMostIops, false}}};

// How much one sandbox gets without asking, how much it may ask for, and how much all may have together. 0 is no limit,
// -1 in the settings stands for the number that derive_ceilings() derives from the machine.
struct Ceilings {
  std::int64_t default_memory_bytes = -1, max_memory_bytes = -1, total_memory_bytes = -1;
  std::int64_t default_cpu_millis = -1, max_cpu_millis = -1;
  std::int64_t max_pids = -1, total_pids = -1;
  std::int64_t max_disk_bytes = -1;
  std::int64_t max_sandboxes = -1;
  IoRates default_io = {},
          max_io = {};  // nothing of the machine tells good rates: no limit unless the operator sets one

  bool limits_io() const { return default_io != IoRates() || max_io != IoRates(); }
  bool operator==(const Ceilings&) const = default;
};

// Replaces each -1:
//   total_memory_bytes    the machine's memory but for a tenth, of which at least 256 MiB and at most 8 GiB are kept
//   free max_memory_bytes      total_memory_bytes, and at least the 2 GiB that SDKs ask for: a small host must not
//   refuse them default_memory_bytes  half of total_memory_bytes max_cpu_millis        all CPUs default_cpu_millis half
//   of the CPUs, at least two total_pids            three quarters of the pids that the kernel gives max_pids half of
//   total_pids max_disk_bytes        the size of the file system max_sandboxes         as many as have their idle
//   memory in total_memory_bytes and their idle pids in total_pids, and
//                         a network slot each
// Code::InvalidRequest: a default above its maximum; `section` is the settings' own.
Result<Ceilings> derive_ceilings(Ceilings settings, const MachineSize& machine, std::string_view section);

// Code::InvalidRequest, "/resourceLimits/memory: 3 GiB is asked for, at most 2 GiB is allowed (SETTING)", if there is a
// maximum and the request is above it.
Result<void> check_bytes(std::string_view limit, std::uint64_t asked, std::int64_t most, std::string_view setting);
// The same for numbers; `unit` follows them.
Result<void> check_number(std::string_view limit, std::uint64_t asked, std::int64_t most, std::string_view setting,
                          std::string_view unit = "");
// The rate of a sandbox: the one that the request asks for, else the default, else the maximum; nothing is no limit.
// `where` is what stands around the setting's name, "[sandbox] {} of sandboxd".
Result<std::optional<std::uint64_t>> io_rate(const IoRate& kind, std::optional<std::uint64_t> asked,
                                             const Ceilings& ceilings, std::string_view where);

}  // namespace osb::config
