#include "execd/code/code_context.h"

#include <utility>

#include "base/concat.h"
#include "execd/code/driver_kernel.h"

namespace osb::execd {
namespace {

// After SIGKILL a process may stay in the kernel's hands for a while.
constexpr std::chrono::seconds kAfterKill{10};

}  // namespace

CodeContext::CodeContext(RunHost& host, CommandEnvironment& environment, Telemetry& telemetry, TaskGroup& tasks,
                         Plan plan)
    : host_(host), environment_(environment), telemetry_(telemetry), tasks_(tasks), plan_(std::move(plan)) {}

CodeContext::~CodeContext() = default;

Result<void> CodeContext::start_kernel() {
  if (deleted_) return fail(Code::NotFound, concat("context ", plan_.id, " was deleted"));
  if (kernel_ && kernel_->alive()) return {};
  const Environment env = environment_.for_command(plan_.envs);
  sys::SpawnPlan process;
  process.cwd = plan_.directory;
  process.env = to_environ(env);
  if (auto found = plan_.language->set_program(env, process); !found) return found;
  auto kernel = DriverKernel::start(host_, *plan_.language, std::move(process));
  if (!kernel) return Failure(kernel.error());
  kernel_ = std::move(*kernel);
  return {};
}

net::awaitable<Result<void>> CodeContext::ready(std::chrono::milliseconds limit) {
  const auto self = shared_from_this();
  const auto kernel = kernel_;
  co_return co_await kernel->ready(limit);
}

std::shared_ptr<Cell> CodeContext::make_cell(std::uint64_t number, std::chrono::milliseconds timeout) {
  return std::make_shared<Cell>(host_.executor(), Cell::Plan{plan_.id, number, timeout, plan_.log,
                                                             [&telemetry = telemetry_](bool success, auto took) {
                                                               telemetry.record_execution("run_code", success, took);
                                                             }});
}

Result<std::shared_ptr<Cell>> CodeContext::run(std::string_view code, std::chrono::milliseconds timeout) {
  if (busy()) {
    auto refused = make_cell(cell_->number() + 1, timeout);
    refused->fail("RUNTIME_ERROR",
                  concat("session is busy: context ", plan_.id,
                         " runs other code now. Wait for its end, interrupt it, or use another context."));
    return refused;
  }
  const std::string lost = kernel_ ? kernel_->end_text() : "";
  if (auto started = start_kernel(); !started) return Failure(started.error());
  cell_ = make_cell(++runs_, timeout);
  if (!lost.empty()) {
    cell_->output(true, concat("[", lost, ". This run starts with a new process; earlier variables are gone.]\n"));
  }
  kernel_->run(cell_, code);
  if (timeout.count() > 0) tasks_.spawn("cell timeout", watch_timeout(cell_));
  return cell_;
}

net::awaitable<void> CodeContext::watch_timeout(std::shared_ptr<Cell> cell) {
  const auto self = shared_from_this();
  const auto kernel = kernel_;
  if (co_await cell->wait_end(cell->timeout())) co_return;
  cell->set_timed_out();
  co_await stop(kernel, cell, plan_.interrupt_grace);
}

net::awaitable<void> CodeContext::stop(std::shared_ptr<Kernel> kernel, std::shared_ptr<Cell> cell,
                                       std::chrono::milliseconds grace) {
  kernel->interrupt();
  if (co_await cell->wait_end(grace)) co_return;
  kernel->kill(concat("the code went on for ", grace.count(), " ms after an interrupt"));
  co_await cell->wait_end(kAfterKill);
}

net::awaitable<void> CodeContext::interrupt() {
  const auto self = shared_from_this();
  if (busy()) co_await stop(kernel_, cell_, plan_.interrupt_grace);
}

void CodeContext::kill() {
  deleted_ = true;
  if (kernel_) kernel_->kill("the context was deleted");
}

net::awaitable<void> CodeContext::end() {
  const auto self = shared_from_this();
  kill();
  const auto kernel = kernel_;
  if (kernel) co_await kernel->wait_gone();
}

}  // namespace osb::execd
