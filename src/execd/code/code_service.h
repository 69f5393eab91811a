#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/execd_requests.h"
#include "execd/code/code_context.h"
#include "execd/code/jupyter/jupyter_server.h"
#include "execd/run/environment.h"
#include "execd/run/interruptible.h"
#include "execd/run/run_host.h"

namespace osb::execd {

// How long interrupted code may go on: EXECD_CODE_INTERRUPT_GRACE, else `usual`.
std::chrono::milliseconds code_interrupt_grace(const Environment& env, std::chrono::milliseconds usual);

// The contexts of a daemon. Nothing is started before the first of them. Errors carry the contract's reasons. One
// thread; everything given to the constructor outlives it.
class CodeService final : public Interruptible {
 public:
  struct Options {
    EventLog::Options log;  // that of commands
    std::chrono::milliseconds interrupt_grace;
    // Its kernels run the code; an error is the answer to all code. Nothing: processes of ours run it.
    std::optional<Result<jupyter::JupyterServer::Options>> jupyter = {};
  };
  CodeService(RunHost& host, CommandEnvironment& environment, Options options, Telemetry& telemetry = no_telemetry());
  ~CodeService() override;

  // Returns when the runner takes code.
  net::awaitable<Result<std::shared_ptr<CodeContext>>> create(api::CreateCodeContext request);
  // Null: unknown, or deleted.
  std::shared_ptr<CodeContext> find(std::string_view id) const;
  // All of one language; of every language if that is empty.
  std::vector<std::shared_ptr<CodeContext>> list(std::string_view language) const;
  // These return when no process of the contexts is left. False: no such context.
  net::awaitable<bool> remove(std::string id);
  net::awaitable<void> remove_all(std::string language);

  // Without an id: in the default context of the language, which the first such run makes.
  Result<std::shared_ptr<Cell>> run(const api::RunCode& request);
  // Takes the id of a context.
  net::awaitable<std::optional<Result<void>>> interrupt(std::string id) override;

  net::awaitable<void> shutdown();

 private:
  // Null: no such language.
  RunnerFactory* runners(const std::string& language);
  Result<std::shared_ptr<CodeContext>> make(api::CreateCodeContext request);
  Result<RunSettings> settings(const api::RunCode& request) const;

  RunHost& host_;
  CommandEnvironment& environment_;
  Telemetry& telemetry_;
  TaskGroup tasks_;  // of the contexts and their runners
  const Options options_;
  std::optional<jupyter::JupyterServer> jupyter_;
  std::map<std::string, std::unique_ptr<RunnerFactory>, std::less<>> runners_;       // by language
  std::map<std::string, std::shared_ptr<CodeContext>, std::less<>> contexts_;        // by id
  std::map<std::string, std::weak_ptr<CodeContext>, std::less<>> default_contexts_;  // by language
  bool closing_ = false;
};

}  // namespace osb::execd
