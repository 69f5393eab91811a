#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sandboxd/launch/launch_child.h"

namespace osb::sandboxd {

// Facts and descriptors that are the same for every launch, made once.
struct LaunchHost {
  UniqueFd empty_namespace;
  UniqueFd userns_sysctl;
  int last_capability = 0;
  bool landlock = false;  // the kernel has its scopes (Linux 6.12), and it is switched on
  std::vector<ChildMask> masks;
};

const Result<LaunchHost>& launch_host();

// Of the file systems in /dev.
std::string devpts_options(std::uint32_t id_base);
std::string shm_options(std::uint64_t bytes);

}  // namespace osb::sandboxd
