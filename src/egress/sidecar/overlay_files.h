#pragma once

#include <functional>
#include <string>

#include "async/descriptor.h"
#include "base/error.h"

namespace osb::egress {

// deny.always and allow.always of an operator, in one directory. A file that is missing is empty.
class OverlayFiles {
 public:
  struct Texts {
    std::string deny, allow;
    bool operator==(const Texts&) const = default;
  };

  // Watches the directory from now on; it is made if it is missing.
  static Result<OverlayFiles> open(net::any_io_executor executor, std::string directory);

  Result<Texts> read() const;
  // Returns after a file has changed since the last call. False: the watch has ended.
  net::awaitable<bool> changed();

 private:
  OverlayFiles(std::string directory, Descriptor watch) : directory_(std::move(directory)), watch_(std::move(watch)) {}
  std::string directory_;
  Descriptor watch_;
};

}  // namespace osb::egress
