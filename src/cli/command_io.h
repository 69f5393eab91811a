#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <opensandbox/connection.h>
#include <opensandbox/manager.h>
#include <opensandbox/sandbox.h>
#include <optional>
#include <string>

#include "cli/config/config.h"
#include "cli/output/output.h"
#include "cli/problem.h"

namespace osb::cli {

// Given to every action: the resolved configuration, the output, and the connection, which is made when first used. One
// per process; it outlives the command tree's actions.
class CommandIo {
 public:
  explicit CommandIo(Environment environment) : environment_(std::move(environment)) {}

  // Root options land here while the command line is parsed.
  Flags flags;

  // Resolved before an action runs, unless its command is without_config().
  const Config& config() const { return config_; }
  Expected<void> load_config();
  std::filesystem::path config_path() const;
  // For the client that is made next, where the configuration allows more.
  void limit_request_time(std::chrono::seconds limit);
  const Environment& environment() const { return environment_; }

  // Nothing is sent, no thread and no TLS before the first of these.
  Expected<opensandbox::Client> client();
  Expected<opensandbox::SandboxManager> manager();
  // These take what a user calls a sandbox or snapshot, a name or the beginning of an id too, and turn it into the id.
  Expected<opensandbox::Sandbox> sandbox(std::string& id);
  Expected<opensandbox::SandboxManager> manager_of_sandbox(std::string& id);
  Expected<opensandbox::SandboxManager> manager_of_snapshot(std::string& id);
  Expected<opensandbox::SandboxManager> manager_of_template(std::string& id);

  Output& out() { return *out_; }
  void set_output(Format format);

 private:
  Environment environment_;
  Config config_;
  std::unique_ptr<Output> out_;
  std::optional<opensandbox::Client> client_;
};

// An error of the SDK with what to do about it:  if (!info) return sdk_failed(context, info.error());
std::unexpected<Problem> sdk_failed(const CommandIo& context, const opensandbox::Error& error);

}  // namespace osb::cli
