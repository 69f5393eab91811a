#pragma once

#include "runtime/docker/engine_client.h"
#include "runtime/logs.h"

namespace osb::runtime {

// Output of entrypoints, from the engine, which keeps it with times and outlives this.
class DockerLogs final : public Logs {
 public:
  explicit DockerLogs(EngineClient& engine) : engine_(engine) {}
  net::awaitable<Result<std::string>> tail(std::string id, std::size_t bytes) override;
  net::awaitable<Result<std::unique_ptr<LogStream>>> open(std::string id, LogsFrom from) override;

 private:
  EngineClient& engine_;
};

}  // namespace osb::runtime
