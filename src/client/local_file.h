#pragma once

#include <cstdint>
#include <opensandbox/files.h>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace opensandbox {

Failure from_local(const osb::Error& error);
Failure from_errno(const std::string& what, int error);

// All bytes or an error.
Result<void> write_fd(int fd, std::string_view bytes, const std::string& what);

// The bytes left in an open file; nothing if it is no regular file. A directory is an error.
Result<std::optional<std::uint64_t>> length_of(int fd, const std::string& what);

// Pieces of a descriptor, at most `limit` bytes of it. A piece stays valid until the call after the next, as ReadAhead
// wants it. The descriptor and the progress function outlive it.
class DescriptorSource {
 public:
  DescriptorSource(int fd, std::string what, std::optional<std::uint64_t> limit, const TransferProgress& progress);
  Result<std::string_view> next();

 private:
  int fd_;
  std::string what_;
  std::optional<std::uint64_t> limit_;
  const TransferProgress& progress_;
  std::string buffer_, other_;
  std::uint64_t done_ = 0;
};

}  // namespace opensandbox
