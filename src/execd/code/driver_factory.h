#pragma once

#include <map>
#include <optional>
#include <string>

#include "execd/code/code_language.h"
#include "execd/code/prepared_kernel.h"
#include "execd/code/runner_factory.h"
#include "execd/run/environment.h"
#include "execd/run/run_host.h"

namespace osb::execd {

// Runners with a driver of ours and the interpreter of the image. Everything given to the constructor outlives it.
class DriverFactory final : public RunnerFactory {
 public:
  DriverFactory(RunHost& host, const CommandEnvironment& environment, const CodeLanguage& language);

  Result<std::shared_ptr<CodeRunner>> start(const Settings& settings) override;
  Result<void> takes(const RunSettings& settings) const override;
  void run_ended() override;
  net::awaitable<void> end() override;

 private:
  void keep_compiled(const std::string& program, const std::map<std::string, std::string>& data);

  RunHost& host_;
  const CommandEnvironment& environment_;
  const CodeLanguage& language_;
  std::shared_ptr<PreparedKernel> prepared_;  // null: the language has none

  // The driver as a process of `program` has compiled it: later ones need not do that again.
  struct Compiled {
    std::string program;
    std::string archive;
  };
  std::optional<Compiled> compiled_;
};

}  // namespace osb::execd
