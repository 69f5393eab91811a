#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "execd/file/disk_reserve.h"

namespace osb::execd {

// The means that isolated sessions may use; from execd's flags.
struct IsolationOptions {
  std::string socket;  // of sandboxd, which makes sessions on request; empty: execd makes them itself
  std::vector<std::string> allowed_writable = {"/workspace", "/mnt", "/media", "/data"};
  std::uint64_t upper_max_bytes = 8ULL << 30;
  std::uint64_t diff_max_bytes = 4ULL << 30;
  DiskReserve reserve = {};  // that uploads into sessions leave free
};

}  // namespace osb::execd
