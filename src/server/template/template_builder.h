#pragma once

#include <functional>
#include <string>

#include "async/timer.h"
#include "http/client.h"
#include "server/service/creates.h"
#include "server/template/template_publisher.h"

namespace osb::server {

// Builds templates: a sandbox of the image, warmed up, captured, published. Every step looks first whether an earlier
// process has done it. Removes nothing. Its arguments outlive it.
class TemplateBuilder {
 public:
  TemplateBuilder(const ServiceContext& context, SandboxStates& states, Creates& creates, BackendPresence& presence);

  using Progress = std::function<void(std::string step)>;
  // Returns where it was published. `cancel` ends it between two steps; a snapshot that is being taken is waited for,
  // so that nothing appears afterwards. `cancel` and `progress` outlive it.
  net::awaitable<Result<std::string>> build(TemplatePtr record, Event& cancel, const Progress& progress);
  // The end of the output of the sandbox that builds it; "" when there is none.
  net::awaitable<std::string> log_of(TemplatePtr record);

 private:
  net::awaitable<Result<void>> warm_up(TemplatePtr record, const Progress& progress);
  net::awaitable<Result<SandboxPtr>> make_sandbox(TemplatePtr record);
  net::awaitable<Result<SandboxPtr>> until_running(SandboxPtr sandbox, const Progress& progress);
  net::awaitable<Result<void>> until_ready(std::string sandbox, api::TemplateProbe probe, const Progress& progress);
  net::awaitable<Result<void>> stay_running(std::string sandbox, std::chrono::nanoseconds time);
  net::awaitable<Result<void>> capture(TemplatePtr record);

  const ServiceContext& context_;
  SandboxStates& states_;
  Creates& creates_;
  BackendPresence& presence_;
  runtime::Snapshots& snapshots_;
  http::Client client_;
  TemplatePublisher publisher_;
};

}  // namespace osb::server
