#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "opensandbox/types.h"

namespace opensandbox {

struct FileInfo {
  std::string path = {};
  std::string type = {};  // file, directory, symlink, other; "" where the sandbox does not tell
  std::uint64_t size = 0;
  int mode = 0;  // the digits spell the bits in octal: 755
  std::string owner = {};
  std::string group = {};
  Timestamp modified_at{};
  Timestamp created_at{};
  std::string json = {};
};

// Zero and empty mean: leave it.
struct Permission {
  int mode = 0;  // the digits spell the bits in octal: 755, 644
  std::string owner = {};
  std::string group = {};
};

struct WriteEntry {
  std::string path = {};
  std::string data = {};
  Permission permission = {};
};

// At most one of the two forms.
struct ReadRange {
  std::optional<std::uint64_t> first_byte = {};  // with `byte_count`: a part in bytes
  std::optional<std::uint64_t> byte_count = {};  // nothing: to the end
  std::optional<std::uint64_t> first_line = {};  // from 1, with `line_count`: a part in lines
  std::optional<std::uint64_t> line_count = {};
};

// The next piece to send, empty at the end; an error stops the transfer, and the call returns it. Called on the calling
// thread. The view must live until the next call.
using ByteSource = std::function<Result<std::string_view>()>;
// Takes the next piece of what arrives; an error stops the transfer. Called on the calling thread.
using ByteSink = std::function<Result<void>(std::string_view)>;
// Bytes so far and, where it is known, of how many. Called on the calling thread.
using TransferProgress = std::function<void(std::uint64_t done, std::optional<std::uint64_t> total)>;

// Files of a sandbox. Paths are the sandbox's; "~" and relative paths mean what they mean to execd. Thread-safe.
class Files {
 public:
  // --- contents
  Result<std::string> read(const std::string& path, const ReadRange& range = {}) const;
  // Returns the number of bytes.
  Result<std::uint64_t> read_to(const std::string& path, const ByteSink& sink, const ReadRange& range = {}) const;
  Result<void> write(const std::string& path, std::string_view data, const Permission& permission = {}) const;
  Result<void> write_all(const std::vector<WriteEntry>& entries) const;  // one request
  Result<std::uint64_t> write_from(const std::string& path, const ByteSource& source,
                                   const Permission& permission = {}) const;

  // --- local files: by name, or an open descriptor that stays the caller's
  Result<std::uint64_t> upload(const std::string& local, const std::string& remote, const Permission& permission = {},
                               const TransferProgress& progress = {}) const;
  Result<std::uint64_t> upload_fd(int fd, const std::string& remote, const Permission& permission = {},
                                  const TransferProgress& progress = {}) const;
  // Writes next to `local` and renames, so that a broken transfer leaves nothing half. Keeps the mode of an existing
  // file.
  Result<std::uint64_t> download(const std::string& remote, const std::string& local,
                                 const TransferProgress& progress = {}) const;
  Result<std::uint64_t> download_fd(const std::string& remote, int fd, const TransferProgress& progress = {}) const;

  // --- whole directories, as one tar stream (not in the published contract). The directory's contents go into the
  // other one, which is made if it is missing. Modes, times and links are kept. Returns the bytes of the stream.
  Result<std::uint64_t> upload_directory(const std::string& local, const std::string& remote,
                                         const TransferProgress& progress = {}) const;
  Result<std::uint64_t> download_directory(const std::string& remote, const std::string& local,
                                           const TransferProgress& progress = {}) const;
  // The tar stream itself.
  Result<std::uint64_t> read_archive(const std::string& remote, const ByteSink& sink) const;
  Result<std::uint64_t> write_archive(const std::string& remote, const ByteSource& source) const;

  // --- everything else
  Result<FileInfo> info(const std::string& path) const;
  Result<std::map<std::string, FileInfo>> infos(const std::vector<std::string>& paths) const;
  Result<std::vector<FileInfo>> list(const std::string& path, std::optional<int> depth = std::nullopt) const;
  Result<std::vector<FileInfo>> search(const std::string& path, const std::string& pattern) const;
  Result<void> move(const std::string& from, const std::string& to) const;
  Result<void> move_all(const std::vector<std::pair<std::string, std::string>>& moves) const;  // from, to
  Result<void> remove(const std::vector<std::string>& paths) const;                            // files
  Result<void> make_directories(const std::vector<std::string>& paths, const Permission& permission = {}) const;
  Result<void> remove_directories(const std::vector<std::string>& paths) const;  // with all that is below
  Result<void> set_permissions(const std::map<std::string, Permission>& paths) const;
  // Replaces every occurrence; returns how many there were.
  struct Replacement {
    std::string path = {};
    std::string old_text = {};
    std::string new_text = {};
  };
  Result<std::map<std::string, std::int64_t>> replace(const std::vector<Replacement>& replacements) const;

  struct Impl;  // internal
  explicit Files(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace opensandbox
