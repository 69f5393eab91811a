#pragma once

#include <time.h>

namespace osb {

// The wall clock as system calls take it.
inline timespec timespec_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now;
}

}  // namespace osb
