#pragma once

#include <string>

#include "runtime/docker/docker_context.h"

namespace osb::runtime {

// The user-defined network that sandboxes are put in, if one was configured: whether the engine has it.
class DockerNetwork {
 public:
  explicit DockerNetwork(DockerContext& context) : context_(context) {}

  bool is_user_defined() const;
  net::awaitable<void> look();
  // Why it cannot be used; "" when it can.
  const std::string& missing() const { return missing_; }

 private:
  DockerContext& context_;
  std::string missing_;
};

}  // namespace osb::runtime
