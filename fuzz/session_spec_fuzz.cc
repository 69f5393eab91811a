// The description of an isolated session: it comes from a process of the sandbox.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "execd/isolated/session_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto spec = osb::execd::decode_session_spec({reinterpret_cast<const char*>(data), size});
  if (!spec) return 0;
  for (const auto& mount : spec->mounts) {
    if (!mount.path.starts_with('/') || mount.path.contains("/../") || mount.path.contains('\0')) std::abort();
  }
  if (!osb::execd::decode_session_spec(osb::execd::encode_session_spec(*spec))) std::abort();
  return 0;
}
