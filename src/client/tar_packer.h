#pragma once

#include <cstdint>
#include <map>
#include <opensandbox/error.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace opensandbox {

// A local directory as a tar stream (POSIX pax), piece by piece: entries are named "./..", the directory itself first.
// Symlinks stay symlinks and hard links within the tree stay links. Owners are left out: what is unpacked belongs to
// whoever unpacks it. Devices, fifos and sockets are left out too. A file that shrinks while it is read is filled up
// with zeros, one that grows is cut, so that the stream stays well-formed.
class TarPacker {
 public:
  static Result<TarPacker> open(const std::string& directory);

  // The next piece, empty at the end. The view lives until the next call.
  Result<std::string_view> next();

 private:
  struct Level {
    osb::UniqueFd directory;
    std::vector<std::string> names;  // sorted, the next one last
    std::string path;                // with a slash at the end
  };

  Result<void> enter(osb::UniqueFd directory, std::string path);
  Result<void> add_next();
  Result<void> add(const Level& level, const std::string& name);
  Result<void> read_file();
  void header(const std::string& path, const struct stat& st, char type, std::uint64_t size, const std::string& link);

  std::vector<Level> levels_;
  std::map<std::pair<dev_t, ino_t>, std::string> linked_;
  std::string out_;
  osb::UniqueFd file_;  // whose contents are being sent
  std::string file_path_;
  std::uint64_t size_ = 0;
  std::uint64_t left_ = 0;
  bool ended_ = false;
};

}  // namespace opensandbox
