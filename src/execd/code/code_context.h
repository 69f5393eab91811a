#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "async/net.h"
#include "async/task_group.h"
#include "base/error.h"
#include "execd/code/cell.h"
#include "execd/code/code_runner.h"
#include "execd/code/runner_factory.h"
#include "execd/metrics/telemetry.h"

namespace osb::execd {

// A place where code runs one cell after the other and finds the variables of earlier ones. It outlives its runner:
// where that died, the next run starts a new one and says so. One thread.
class CodeContext : public std::enable_shared_from_this<CodeContext> {
 public:
  struct Plan {
    std::string id;
    std::string language;
    RunnerFactory* runners;  // of the language; outlives the context
    RunnerFactory::Settings settings;
    std::chrono::milliseconds timeout;  // of runs that have none of their own; zero: none
    EventLog::Options log;
    std::chrono::milliseconds interrupt_grace;
  };
  CodeContext(const net::any_io_executor& executor, Telemetry& telemetry, TaskGroup& tasks, Plan plan);
  ~CodeContext();
  CodeContext(const CodeContext&) = delete;
  CodeContext& operator=(const CodeContext&) = delete;

  const std::string& id() const { return plan_.id; }
  const std::string& language() const { return plan_.language; }
  const std::string& cwd() const { return plan_.settings.cwd; }
  bool busy() const { return cell_ && !cell_->ended(); }
  // The newest run, over or not; null: there was none.
  const std::shared_ptr<Cell>& newest() const { return cell_; }

  // Starts the runner if there is none. Fails (Code::Unsupported) where the language is not in the image.
  Result<void> start_runner();
  // Returns when the runner takes code.
  net::awaitable<Result<void>> ready(std::chrono::milliseconds limit);

  // Runs code. An error means that no runner could be started, or that it does not take the settings. A busy context
  // gives a cell of its own that says so.
  Result<std::shared_ptr<Cell>> run(std::string_view code, std::chrono::milliseconds timeout,
                                    const RunSettings& settings);

  // Interrupts the running cell and returns when it has ended; a cell that goes on after the grace period is killed
  // together with the runner. Nothing happens to an idle context.
  net::awaitable<void> interrupt();

  // Kills the runner; no other one is started. end() also waits until none of its processes is left.
  void kill();
  net::awaitable<void> end();

 private:
  std::shared_ptr<Cell> make_cell(std::uint64_t number, std::chrono::milliseconds timeout);
  net::awaitable<void> watch_timeout(std::shared_ptr<Cell> cell);
  static net::awaitable<void> stop(std::shared_ptr<CodeRunner> runner, std::shared_ptr<Cell> cell,
                                   std::chrono::milliseconds grace);

  const net::any_io_executor executor_;
  Telemetry& telemetry_;
  TaskGroup& tasks_;
  const Plan plan_;
  std::shared_ptr<CodeRunner> runner_;
  std::shared_ptr<Cell> cell_;
  std::uint64_t runs_ = 0;
  bool deleted_ = false;
};

}  // namespace osb::execd
