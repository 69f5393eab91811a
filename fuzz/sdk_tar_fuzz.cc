// Archives from sandboxes, unpacked on the user's machine: no archive writes outside of the target directory.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>

#include "client/tar_unpacker.h"

namespace fs = std::filesystem;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const fs::path around = fs::temp_directory_path() / ("sdk-tar-fuzz-" + std::to_string(::getpid()));
  fs::create_directories(around);
  {
    auto unpacker = opensandbox::TarUnpacker::open(around / "in");
    if (!unpacker) std::abort();
    std::string_view archive(reinterpret_cast<const char*>(data + 1), size - 1);
    const std::size_t piece = std::size_t{1} + data[0];
    bool fine = true;
    for (; fine && !archive.empty(); archive.remove_prefix(std::min(piece, archive.size()))) {
      fine = unpacker->feed(archive.substr(0, piece)).has_value();
    }
    if (fine) (void)unpacker->finish();
  }
  for (const auto& entry : fs::directory_iterator(around)) {
    if (entry.path().filename() != "in") std::abort();
  }
  fs::remove_all(around);
  return 0;
}
