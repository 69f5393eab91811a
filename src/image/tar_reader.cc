#include "image/tar_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <cerrno>
#include <new>
#include <unistd.h>

#include "sys/syscall.h"

namespace osb::image {

Result<void> write_at(int file, FileBlock block) {
  while (!block.bytes.empty()) {
    const ssize_t wrote = ::pwrite(file, block.bytes.data(), block.bytes.size(), static_cast<off_t>(block.offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return sys::from_errno("write", errno);
    block.bytes.remove_prefix(static_cast<std::size_t>(wrote));
    block.offset += static_cast<std::uint64_t>(wrote);
  }
  return {};
}

TarReader::TarReader(std::string what, ByteSource source, std::uint64_t limit)
    : what_(std::move(what)),
      stream_(std::move(source), limit),
      archive_(::archive_read_new(), &::archive_read_free),
      utf8_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
  // libarchive converts names into the thread's character set; with UTF-8 it leaves them as they are.
  if (utf8_ != nullptr) before_ = ::uselocale(utf8_);
  if (!archive_) throw std::bad_alloc();
  ::archive_read_support_format_tar(archive_.get());
}

TarReader::~TarReader() {
  archive_.reset();
  if (utf8_ == nullptr) return;
  ::uselocale(before_);
  ::freelocale(utf8_);
}

Failure TarReader::failed() {
  if (stream_error_) return Failure(*stream_error_);
  const char* text = ::archive_error_string(archive_.get());
  return fail(Code::InvalidRequest, what_ + ": damaged tar: " + (text != nullptr ? text : "unknown"));
}

Result<archive_entry*> TarReader::next() {
  archive* const a = archive_.get();
  if (!opened_) {
    opened_ = true;
    const auto read = [](archive* from, void* self, const void** buffer) -> la_ssize_t {
      auto& reader = *static_cast<TarReader*>(self);
      const auto piece = reader.stream_.next();
      if (!piece) {
        reader.stream_error_ = piece.error();
        ::archive_set_error(from, EIO, "%s", "source");
        return ARCHIVE_FATAL;
      }
      *buffer = piece->data();
      return static_cast<la_ssize_t>(piece->size());
    };
    if (::archive_read_open2(a, this, nullptr, read, nullptr, nullptr) != ARCHIVE_OK) return failed();
  }
  archive_entry* entry = nullptr;
  const int rc = ::archive_read_next_header(a, &entry);
  if (rc == ARCHIVE_OK || rc == ARCHIVE_WARN) return entry;
  if (rc != ARCHIVE_EOF) return failed();
  for (;;) {
    const auto piece = stream_.next();
    if (!piece) return Failure(piece.error());
    if (piece->empty()) return nullptr;
  }
}

Result<FileBlock> TarReader::data() {
  for (;;) {
    const void* bytes = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    const int rc = ::archive_read_data_block(archive_.get(), &bytes, &size, &offset);
    if (rc == ARCHIVE_EOF) return FileBlock{};
    if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN) return failed();
    if (offset < 0) return fail(Code::InvalidRequest, what_ + ": damaged tar: data before its file's start");
    if (size > 0) return FileBlock{static_cast<std::uint64_t>(offset), {static_cast<const char*>(bytes), size}};
  }
}

}  // namespace osb::image
