#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <time.h>
#include <utility>
#include <vector>

namespace osb::archive {

// One member of a tar archive.
struct TarEntry {
  enum class Type : char {
    File = '0',
    HardLink = '1',
    Symlink = '2',
    CharDevice = '3',
    BlockDevice = '4',
    Directory = '5',
    Fifo = '6',
  };
  struct Segment {
    std::uint64_t offset;
    std::uint64_t length;
  };

  Type type = Type::File;
  std::string path;  // as in the archive, any bytes but NUL
  std::string link;  // of HardLink and Symlink
  mode_t mode = 0;   // permission bits with setuid, setgid, sticky
  std::uint64_t uid = 0;
  std::uint64_t gid = 0;
  std::string owner;  // names, possibly empty
  std::string group;
  timespec mtime{};
  std::uint64_t size = 0;  // of the file when it is unpacked
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  // Where a sparse file has data: ascending, not overlapping, within size.
  bool sparse = false;
  std::vector<Segment> segments;
  // Extended attributes by name ("user.note"); values are any bytes. Absent in most archives.
  std::vector<std::pair<std::string, std::string>> attributes;
};

inline constexpr std::size_t kTarBlock = 512;

// Bytes that fill up the last block of `size` bytes.
inline std::size_t tar_padding(std::uint64_t size) { return (kTarBlock - size % kTarBlock) % kTarBlock; }

// Appends the header blocks of an entry: POSIX ustar, pax records where a field does not fit, and for a sparse file its
// map in GNU's format 1.0. The contents follow (for a sparse file its segments only, one after the other), then
// tar_padding() of their number.
void append_tar_header(std::string& out, const TarEntry& entry);
// How many bytes of contents follow the header.
std::uint64_t stored_bytes(const TarEntry& entry);

// Zeros that end an archive.
inline constexpr std::size_t kTarEndBytes = 2 * kTarBlock;

}  // namespace osb::archive
