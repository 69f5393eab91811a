#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::execd {

// The contract's file (--lifecycle-startup-status-file) in which the start script of an image sees whether it may start
// the user's process: a line "running SECONDS" when preStart begins, with its time limit, and at last "done 0" or
// "done 1". The script makes the file; execd only appends, so that a file that is gone is an error on both sides.
class StartupStatus {
 public:
  explicit StartupStatus(std::string path = {}) : path_(std::move(path)) {}

  bool wanted() const { return !path_.empty(); }
  // Both do nothing without a path.
  Result<void> running(std::chrono::seconds limit) const;
  Result<void> done(bool succeeded) const;

 private:
  Result<void> append(std::string_view line) const;

  std::string path_;
};

}  // namespace osb::execd
