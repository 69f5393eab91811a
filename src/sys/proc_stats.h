#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace osb::sys {

// Numbers of /proc, which is that of the sandbox where it has its own namespaces. Everything is nothing (or 0) when
// /proc does not say. `proc` is for tests.

struct HostMemory {
  std::uint64_t total_bytes = 0;
  std::uint64_t used_bytes = 0;  // total - free - buffers - cached - reclaimable slab
};
std::optional<HostMemory> host_memory(const std::string& proc = "/proc");

// CPU time since boot, summed over all CPUs, in clock ticks.
struct HostCpuTime {
  std::uint64_t busy = 0;
  std::uint64_t total = 0;
};
std::optional<HostCpuTime> host_cpu_time(const std::string& proc = "/proc");

std::uint64_t process_count(const std::string& proc = "/proc");

struct NetworkBytes {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
};
// Of this network namespace, without loopback.
NetworkBytes network_bytes(const std::string& proc = "/proc");

struct SocketCounts {
  std::uint64_t tcp = 0;
  std::uint64_t udp = 0;
};
// Of this network namespace, IPv4 and IPv6. Listening sockets count, those in TIME_WAIT do not.
SocketCounts socket_counts(const std::string& proc = "/proc");

}  // namespace osb::sys
