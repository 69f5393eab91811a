#include "kernel/core_scheduling.h"

#include <cerrno>
#include <cstdint>
#include <sys/prctl.h>

namespace osb::kernel {

bool has_core_scheduling() {
  std::uint64_t cookie = 0;
  return ::prctl(kSchedCore, kSchedCoreGet, 0, 0, &cookie) == 0 || errno == ENODEV;
}

}  // namespace osb::kernel
