#pragma once

#include "async/timer.h"
#include "server/policies/policy_library.h"

namespace osb::server {

// Reads the templates again when a file of their directory changes. Errors go to the log, and the old templates stay.
// The library outlives it.
class PolicyReloads {
 public:
  PolicyReloads(net::any_io_executor executor, PolicyLibrary& library)
      : executor_(executor), library_(library), asked_(executor) {}

  // Until cancelled.
  net::awaitable<void> run();
  // The directory may be another one, or be back.
  void look_again() { asked_.notify_all(); }

 private:
  net::awaitable<bool> follow(std::filesystem::path directory);
  void reload();

  net::any_io_executor executor_;
  PolicyLibrary& library_;
  Notifier asked_;
};

}  // namespace osb::server
