#pragma once

#include <memory>
#include <string>

#include "runtime/backend.h"
#include "runtime/docker/docker_lifecycle.h"
#include "runtime/docker/docker_logs.h"
#include "runtime/docker/docker_snapshots.h"

namespace osb::runtime {

// Sandboxes as containers of a Docker engine, or of Podman by its Docker-compatible socket. The engine is what knows
// them: they are found by name and label, also those that another implementation of the contract has made. Images
// belong to the engine, so there is no image store.
class DockerBackend final : public Backend {
 public:
  // Reaches the engine and checks that it can do what the options need.
  static net::awaitable<Result<std::unique_ptr<DockerBackend>>> connect(net::any_io_executor executor,
                                                                        DockerOptions options,
                                                                        const Clock& clock = system_clock());

  const std::string& engine_name() const { return facts_.name; }  // for the log
  net::awaitable<void> close() override { return tasks_.close(); }
  const Capabilities& capabilities() const override { return capabilities_; }
  DockerLifecycle& lifecycle() override { return lifecycle_; }
  std::unique_ptr<http::Connector> connector() override;
  DockerLogs* logs() override { return &logs_; }
  DockerSnapshots* snapshots() override { return &snapshots_; }

 private:
  DockerBackend(net::any_io_executor executor, DockerOptions options, std::unique_ptr<EngineClient> engine,
                EngineFacts facts, const Clock& clock);

  Capabilities capabilities_;
  const DockerOptions options_;
  const EngineFacts facts_;
  const std::unique_ptr<EngineClient> engine_;
  BlockingPool pool_{2};
  TaskGroup tasks_;
  DockerContext context_;
  PortPool ports_;
  Images images_;
  ExecdVolume execd_volume_;
  DockerNetwork network_;
  Sidecars sidecars_;
  Containers containers_;
  DockerCreates creates_;
  DockerSnapshots snapshots_;
  DockerLogs logs_;
  DockerWatch watch_;
  DockerLifecycle lifecycle_;
};

}  // namespace osb::runtime
