#pragma once

#include <string>

#include "async/descriptor.h"
#include "base/error.h"

namespace osb {

// Tells that the files of a directory have changed: written and closed, added, renamed or removed. One waiter.
class DirectoryWatch {
 public:
  // Changes after this call are told.
  static Result<DirectoryWatch> open(net::any_io_executor executor, const std::string& path);

  // Until something has changed since the last call; several changes may be told as one. An error: the directory itself
  // was removed or moved away, so that the watch is of no use any more, or the coroutine was cancelled
  // (Code::Cancelled).
  net::awaitable<Result<void>> changed();

 private:
  DirectoryWatch(Descriptor inotify, std::string path) : inotify_(std::move(inotify)), path_(std::move(path)) {}

  Descriptor inotify_;
  std::string path_;
};

}  // namespace osb
