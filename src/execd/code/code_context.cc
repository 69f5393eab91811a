#include "execd/code/code_context.h"

#include <utility>

#include "base/concat.h"

namespace osb::execd {
namespace {

// After SIGKILL a process may stay in the kernel's hands for a while.
constexpr std::chrono::seconds kAfterKill{10};

}  // namespace

CodeContext::CodeContext(const net::any_io_executor& executor, Telemetry& telemetry, TaskGroup& tasks, Plan plan)
    : executor_(executor), telemetry_(telemetry), tasks_(tasks), plan_(std::move(plan)) {}

CodeContext::~CodeContext() = default;

Result<void> CodeContext::start_runner() {
  if (deleted_) return fail(Code::NotFound, concat("context ", plan_.id, " was deleted"));
  if (runner_ && runner_->alive()) return {};
  auto runner = plan_.runners->start(plan_.settings);
  if (!runner) return Failure(runner.error());
  runner_ = std::move(*runner);
  return {};
}

net::awaitable<Result<void>> CodeContext::ready(std::chrono::milliseconds limit) {
  const auto self = shared_from_this();
  const auto runner = runner_;
  co_return co_await runner->ready(limit);
}

std::shared_ptr<Cell> CodeContext::make_cell(std::uint64_t number, std::chrono::milliseconds timeout) {
  const auto on_end = [&telemetry = telemetry_, runners = plan_.runners](bool success, auto took) {
    telemetry.record_execution("run_code", success, took);
    runners->run_ended();
  };
  return std::make_shared<Cell>(executor_, Cell::Plan{plan_.id, number, timeout, plan_.log, on_end});
}

Result<std::shared_ptr<Cell>> CodeContext::run(std::string_view code, std::chrono::milliseconds timeout,
                                               const RunSettings& settings) {
  if (auto taken = plan_.runners->takes(settings); !taken) return Failure(taken.error());
  if (timeout.count() == 0) timeout = plan_.timeout;
  if (busy()) {
    auto refused = make_cell(cell_->number() + 1, timeout);
    refused->fail("RUNTIME_ERROR",
                  concat("session is busy: context ", plan_.id,
                         " runs other code now. Wait for its end, interrupt it, or use another context."));
    return refused;
  }
  const std::string lost = runner_ ? runner_->end_text() : "";
  if (auto started = start_runner(); !started) return Failure(started.error());
  cell_ = make_cell(++runs_, timeout);
  if (!lost.empty()) {
    cell_->output(true, concat("[", lost, ". This run starts with a new process; earlier variables are gone.]\n"));
  }
  runner_->run(cell_, code, settings);
  if (timeout.count() > 0) tasks_.spawn("cell timeout", watch_timeout(cell_));
  return cell_;
}

net::awaitable<void> CodeContext::watch_timeout(std::shared_ptr<Cell> cell) {
  const auto self = shared_from_this();
  const auto runner = runner_;
  if (co_await cell->wait_end(cell->timeout())) co_return;
  cell->set_timed_out();
  co_await stop(runner, cell, plan_.interrupt_grace);
}

net::awaitable<void> CodeContext::stop(std::shared_ptr<CodeRunner> runner, std::shared_ptr<Cell> cell,
                                       std::chrono::milliseconds grace) {
  runner->interrupt();
  if (co_await cell->wait_end(grace)) co_return;
  runner->kill(concat("the code went on for ", grace.count(), " ms after an interrupt"));
  co_await cell->wait_end(kAfterKill);
}

net::awaitable<void> CodeContext::interrupt() {
  const auto self = shared_from_this();
  if (busy()) co_await stop(runner_, cell_, plan_.interrupt_grace);
}

void CodeContext::kill() {
  deleted_ = true;
  if (runner_) runner_->kill("the context was deleted");
}

net::awaitable<void> CodeContext::end() {
  const auto self = shared_from_this();
  kill();
  const auto runner = runner_;
  if (runner) co_await runner->wait_gone();
}

}  // namespace osb::execd
