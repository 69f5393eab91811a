#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace osb::sys {

// Texts of the files of a cgroup.

// A file with one number; nothing for "max" and other words.
std::optional<std::uint64_t> parse_cgroup_number(std::string_view text);
// The number of "key number" in a file of such lines: cpu.stat, memory.stat, memory.events.
std::optional<std::uint64_t> parse_cgroup_key(std::string_view text, std::string_view key);
// cgroup.procs, without members outside our pid namespace, whose number is 0.
std::vector<pid_t> parse_cgroup_pids(std::string_view text);

struct CgroupEvents {
  bool populated = false;  // any live member, here or below
  bool frozen = false;
};
CgroupEvents parse_cgroup_events(std::string_view text);  // cgroup.events of v2

}  // namespace osb::sys
