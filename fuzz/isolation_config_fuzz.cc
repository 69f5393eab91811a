#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "execd/isolated/isolation_config.h"

// With any file, paths of sessions are absolute and sizes are above 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace osb::execd;
  IsolationOptions options;
  (void)read_isolation_config({reinterpret_cast<const char*>(data), size}, "f", options);
  if (options.upper_max_bytes == 0 || options.diff_max_bytes == 0) std::abort();
  for (const std::string& path : options.allowed_writable) {
    if (!path.starts_with('/') || path == "/") std::abort();
  }
  return 0;
}
