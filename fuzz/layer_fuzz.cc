// Image layers from strangers: whiteouts, attributes and owners included. Nothing appears beside the directory.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <span>
#include <string>
#include <unistd.h>

#include "base/unique_fd.h"
#include "image/layer_unpacker.h"

namespace fs = std::filesystem;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fs::path around = fs::temp_directory_path() / ("layer-fuzz-" + std::to_string(::getpid()));
  fs::create_directories(around / "in");
  {
    const osb::UniqueFd root(::open((around / "in").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    osb::image::UnpackOptions options;
    options.max_bytes = 1 << 24;
    options.max_entries = 10'000;
    const auto source = [data, size](std::span<char> buffer) mutable -> osb::Result<std::size_t> {
      const std::size_t n = std::min(size, buffer.size());
      std::memcpy(buffer.data(), data, n);
      data += n;
      size -= n;
      return n;
    };
    const auto done = osb::image::unpack_layer(source, root.get(), options);
    if (done && done->entries > options.max_entries) std::abort();
  }
  for (const auto& entry : fs::directory_iterator(around)) {
    if (entry.path().filename() != "in") std::abort();
  }
  fs::remove_all(around);
  return 0;
}
