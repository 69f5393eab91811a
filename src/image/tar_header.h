#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace osb::image {

inline constexpr std::size_t kTarBlock = 512;

// One entry's header, in pax format where plain ustar has no room for it.
struct TarHeader {
  std::string path;  // relative, directories with a slash at the end
  char type = '0';   // 0 file, 1 hard link, 2 symbolic link, 3 and 4 devices, 5 directory, 6 pipe
  std::uint64_t size = 0;
  mode_t mode = 0;  // permissions
  std::uint32_t uid = 0, gid = 0;
  timespec mtime{};
  std::string link;
  dev_t device = 0;
  // Further pax records, values of any bytes; keys without '='.
  std::vector<std::pair<std::string, std::string>> records;

  // Whole blocks.
  std::string encode() const;
};

// The two empty blocks that end an archive.
inline std::string tar_end() { return std::string(2 * kTarBlock, '\0'); }
// How many zeros follow `size` bytes of data.
inline std::size_t tar_padding(std::uint64_t size) { return (kTarBlock - size % kTarBlock) % kTarBlock; }

}  // namespace osb::image
