#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace osb::sys {

// A line of /proc/PID/mountinfo.
struct MountEntry {
  std::string root;           // the directory of the file system that is mounted
  std::string point;          // where, as the process of the file sees it
  std::string type;           // "cgroup2"
  std::string super_options;  // "rw,cpu,cpuacct"
};

// Lines that are none are left out.
std::vector<MountEntry> parse_mountinfo(std::string_view text);

// The parts between separators, empty ones included.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace osb::sys
