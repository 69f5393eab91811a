#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/execd_requests.h"
#include "execd/code/code_context.h"
#include "execd/run/interruptible.h"

namespace osb::execd {

// The contexts of a daemon. Nothing is started before the first of them. Errors carry the contract's reasons. One
// thread; everything given to the constructor outlives it.
class CodeService final : public Interruptible {
 public:
  // `log` and `interrupt_grace` are those of commands; EXECD_CODE_INTERRUPT_GRACE overrides the second.
  CodeService(RunHost& host, CommandEnvironment& environment, EventLog::Options log,
              std::chrono::milliseconds interrupt_grace, Telemetry& telemetry = no_telemetry());
  ~CodeService() override;

  // Returns when the kernel takes code.
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
  Result<std::shared_ptr<CodeContext>> make(const std::string& language, const std::string& cwd,
                                            std::map<std::string, std::string> envs);

  RunHost& host_;
  CommandEnvironment& environment_;
  Telemetry& telemetry_;
  TaskGroup tasks_;  // of the contexts
  const EventLog::Options log_;
  const std::chrono::milliseconds interrupt_grace_;
  std::map<std::string, std::shared_ptr<CodeContext>, std::less<>> contexts_;        // by id
  std::map<std::string, std::weak_ptr<CodeContext>, std::less<>> default_contexts_;  // by language
  bool closing_ = false;
};

}  // namespace osb::execd
