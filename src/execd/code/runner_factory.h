#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "execd/code/code_runner.h"

namespace osb::execd {

// Starts the runners of one language. One thread; outlives its runners.
class RunnerFactory {
 public:
  struct Settings {
    std::string cwd;        // as the request gave it; empty: none
    std::string directory;  // the same as an absolute path
    std::map<std::string, std::string> envs;
  };

  virtual ~RunnerFactory() = default;

  // Fails (Code::Unsupported) where the language is not in the image; the error says what to install.
  virtual Result<std::shared_ptr<CodeRunner>> start(const Settings& settings) = 0;
  // Fails (Code::InvalidRequest) where a directory or variables cannot be set for one run.
  virtual Result<void> takes(const RunSettings& settings) const = 0;
  // A run has ended: the time to prepare the start of the next runner.
  virtual void run_ended() {}
  // Ends whatever was prepared.
  virtual net::awaitable<void> end() { co_return; }
};

}  // namespace osb::execd
