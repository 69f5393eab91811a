#pragma once

#include <string>
#include <vector>

#include "async/net.h"
#include "containerd/client.h"

namespace osb::containerd {

// The processes of containers that stand still while their files are read. What this process has paused, and what an
// earlier one that was killed has left paused, goes on with resume_all().
class PausedTasks {
 public:
  // `client` outlives it.
  explicit PausedTasks(Client& client) : client_(client) {}

  // Looks at a container: if its processes stand still already, they are resumed at the end, too.
  net::awaitable<Result<TaskStatus>> adopt(std::string container);
  // True: they stand still. False: they cannot be paused, or there are none; the log says so.
  net::awaitable<Result<bool>> pause(std::string container);
  net::awaitable<Result<bool>> is_paused(std::string container);
  // Until they run: repeated for a while if containerd is being restarted. May be called again.
  net::awaitable<Result<void>> resume_all();

 private:
  net::awaitable<Result<void>> resume(std::string container);
  void remember(const std::string& container);

  Client& client_;
  std::vector<std::string> paused_;  // or about to be
};

}  // namespace osb::containerd
