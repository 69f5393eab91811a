#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/lifecycle_create.h"
#include "base/error.h"

namespace osb::api {

// The amounts of a request's `resourceLimits`, for backends that make sandboxes on one machine. Names:
//
//   cpu, memory, gpu                        upstream's; memory "0" is Docker's word for no limit and counts as absent
//   disk, storage, ephemeral-storage        three names for one limit
//   pids                                    processes and threads
//   io-read-bps, io-write-bps               bytes per second
//   io-read-iops, io-write-iops             operations per second
//   network-receive-bps, network-send-bps   bytes per second, seen from the sandbox
struct ResourceLimits {
  std::optional<std::uint64_t> memory_bytes = {};
  std::optional<std::int64_t> nano_cpus = {};  // 1'000'000'000 is one CPU
  int gpus = 0;                                // -1 is all
  std::optional<std::uint64_t> disk_bytes = {};
  std::optional<std::uint64_t> pids = {};
  std::optional<std::uint64_t> io_read_bps = {}, io_write_bps = {}, io_read_iops = {}, io_write_iops = {};
  std::optional<std::uint64_t> network_receive_bps = {}, network_send_bps = {};

  bool operator==(const ResourceLimits&) const = default;
};

// "cpu, memory, gpu, ..": all names, for help texts.
std::string resource_limit_names();

// 400 for an unknown name (with the nearest known one and the list of all) and for a value that is no amount: an
// ignored limit would be no limit.
Result<ResourceLimits> read_resource_limits(const std::optional<StringMap>& wanted);

}  // namespace osb::api
