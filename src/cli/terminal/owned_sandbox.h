#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cli/command_io.h"
#include "cli/terminal/signal_fd.h"

namespace osb::cli {

// A sandbox for one command: made, kept alive as long as it is needed, and removed in every case. If this process is
// killed, the sandbox ends by its own deadline, at most ten minutes later.
class OwnedSandbox {
 public:
  // `options.timeout` unset by the user (`renewed`): ten minutes, renewed half-way. A signal meanwhile removes what was
  // begun and is given back as the error's exit code.
  static Expected<std::unique_ptr<OwnedSandbox>> create(CommandIo& context, opensandbox::CreateOptions options,
                                                        bool renewed, SignalFd& signals);
  ~OwnedSandbox();  // removes it, unless it was kept
  OwnedSandbox(const OwnedSandbox&) = delete;
  OwnedSandbox& operator=(const OwnedSandbox&) = delete;

  const opensandbox::Sandbox& sandbox() const { return sandbox_; }
  void keep() { kept_ = true; }

 private:
  OwnedSandbox(CommandIo& context, opensandbox::Sandbox sandbox, bool renewed);
  void renew();

  CommandIo& context_;
  opensandbox::Sandbox sandbox_;
  bool kept_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread renewing_;
};

}  // namespace osb::cli
