#pragma once

#include <optional>
#include <string>

#include "async/net.h"
#include "base/error.h"

namespace osb::execd {

// Something that DELETE /command and DELETE /code can stop by its id: commands, bash sessions, code contexts.
class Interruptible {
 public:
  virtual ~Interruptible() = default;
  // Nothing: no such id here, ask the next one. An error: it is here but cannot be interrupted (any more). Success
  // comes after the interruption has taken effect. The object outlives the call.
  virtual net::awaitable<std::optional<Result<void>>> interrupt(std::string id) = 0;
};

}  // namespace osb::execd
