#include "execd/run/output_log.h"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

#include "execd/run/temp_file.h"

namespace osb::execd {
namespace {

constexpr std::uint64_t kMemoryLimit = 4 * 1024 * 1024;

}  // namespace

bool OutputLog::open(File& file) {
  auto made = make_unnamed_file(directory_);
  if (!made) return open_in_memory(file);
  file.file = std::make_shared<const UniqueFd>(std::move(*made));
  return true;
}

bool OutputLog::open_in_memory(File& file) {
  UniqueFd made(::memfd_create("execd-output", MFD_CLOEXEC));
  if (!made) return false;
  limit_ = std::min(limit_, kMemoryLimit);
  file.file = std::make_shared<const UniqueFd>(std::move(made));
  file.in_memory = true;
  return true;
}

// After a write to `full` has failed. False when that leaves nothing to write to.
bool OutputLog::go_on_in_memory(File& full) {
  if (full.in_memory) return false;
  if (full.size == 0) return open_in_memory(full);
  File& newer = files_[1];
  if (&full == &newer) files_[0] = std::move(newer);
  newer = {};
  newer.start = end_of(files_[0]);
  return open_in_memory(newer);
}

// The file that takes the next byte, or nullptr when none can be made.
OutputLog::File* OutputLog::writable() {
  File& older = files_[0];
  File& newer = files_[1];
  if (!older.file && !open(older)) return nullptr;
  if (!newer.file && older.size < limit_ / 2) return &older;
  if (newer.file && newer.size >= limit_ / 2) older = std::move(newer), newer = {};
  if (!newer.file) {
    newer.start = end_of(older);
    if (!open(newer)) return nullptr;
  }
  return &newer;
}

void OutputLog::append(std::string_view bytes) {
  while (!bytes.empty()) {
    File* file = writable();
    if (file == nullptr) return;
    const std::uint64_t room = std::max<std::uint64_t>(limit_ / 2, file->size + 1) - file->size;
    const std::size_t part = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), room));
    const ssize_t n = ::pwrite(file->file->get(), bytes.data(), part, static_cast<off_t>(file->size));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      // A full disk neither stops the command nor loses what it says.
      if (go_on_in_memory(*file)) continue;
      return;
    }
    file->size += static_cast<std::uint64_t>(n);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::vector<OutputLog::Part> OutputLog::slice(std::uint64_t from) const {
  std::vector<Part> parts;
  for (const File& file : files_) {
    if (!file.file || from >= end_of(file)) continue;
    const std::uint64_t offset = std::max(from, file.start) - file.start;
    parts.push_back({file.file, offset, file.size - offset});
  }
  return parts;
}

void OutputLog::discard() {
  const std::uint64_t at = end();
  files_ = {};
  files_[0].start = at;
}

}  // namespace osb::execd
