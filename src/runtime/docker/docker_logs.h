#pragma once

#include <chrono>

#include "runtime/docker/containers.h"
#include "runtime/docker/engine_client.h"
#include "runtime/logs.h"

namespace osb::runtime {

// The last bytes of the entrypoint's output.
net::awaitable<Result<std::string>> read_log_tail(EngineClient& engine, std::string id, std::size_t bytes);

// Output of entrypoints, from the engine, which keeps it with times and outlives this.
class DockerLogs final : public Logs {
 public:
  // `silence`: an engine that has sent nothing for so long after a container's end has nothing more to send.
  DockerLogs(EngineClient& engine, Containers& containers, std::chrono::milliseconds silence)
      : engine_(engine), containers_(containers), silence_(silence) {}
  net::awaitable<Result<std::string>> tail(std::string id, std::size_t bytes) override {
    return read_log_tail(engine_, std::move(id), bytes);
  }
  net::awaitable<Result<std::unique_ptr<LogStream>>> open(std::string id, LogsFrom from) override;

 private:
  EngineClient& engine_;
  Containers& containers_;
  const std::chrono::milliseconds silence_;
};

}  // namespace osb::runtime
