#pragma once

#include "runtime/logs.h"
#include "runtime/native/sandboxd_client.h"

namespace osb::runtime {

// Output of entrypoints, from sandboxd, which keeps it with times and outlives this.
class NativeLogs final : public Logs {
 public:
  explicit NativeLogs(SandboxdClient& daemon) : daemon_(daemon) {}
  net::awaitable<Result<std::string>> tail(std::string id, std::size_t bytes) override;
  net::awaitable<Result<std::unique_ptr<LogStream>>> open(std::string id, LogsFrom from) override;

 private:
  SandboxdClient& daemon_;
};

}  // namespace osb::runtime
