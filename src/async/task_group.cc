#include "async/task_group.h"

#include <exception>
#include <list>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.h"

namespace osb {
namespace {

constexpr auto kPatience = std::chrono::seconds(5);

struct Task {
  std::string name;
  net::cancellation_signal stop;
};

void log_end(const std::string& name, const std::exception_ptr& thrown, bool stopping) {
  try {
    std::rethrow_exception(thrown);
  } catch (const boost::system::system_error& e) {
    if (stopping && e.code() == net::error::operation_aborted) return;  // the expected end of a cancelled task
    log_error("task failed", {{"task", name}, {"error", e.what()}});
  } catch (const std::exception& e) {
    log_error("task failed", {{"task", name}, {"error", e.what()}});
  } catch (...) {
    log_error("task failed", {{"task", name}, {"error", "not a std::exception"}});
  }
}

}  // namespace

// Shared with the tasks' completions: they may come after the group has gone.
struct TaskGroup::State {
  explicit State(net::any_io_executor ex) : executor(std::move(ex)) {}

  void stop_all() {
    closing = true;
    // A task may end at once and leave the list while it is being told.
    for (auto it = running.begin(); it != running.end();) (it++)->stop.emit(net::cancellation_type::terminal);
  }

  net::any_io_executor executor;
  std::list<Task> running;
  std::list<net::steady_timer> closers;  // cancelled when the last task ends
  bool closing = false;
};

TaskGroup::TaskGroup(net::any_io_executor executor) : state_(std::make_shared<State>(std::move(executor))) {}

TaskGroup::~TaskGroup() { state_->stop_all(); }

void TaskGroup::spawn(std::string name, net::awaitable<void> task) {
  if (state_->closing) return;
  const auto it = state_->running.emplace(state_->running.end());
  it->name = std::move(name);
  auto done = [state = state_, it](std::exception_ptr thrown) {
    if (thrown) log_end(it->name, thrown, state->closing);
    state->running.erase(it);
    if (!state->running.empty()) return;
    for (net::steady_timer& closer : state->closers) closer.cancel();
  };
  net::co_spawn(state_->executor, std::move(task), net::bind_cancellation_slot(it->stop.slot(), std::move(done)));
}

net::awaitable<void> TaskGroup::close() { return close_all(state_); }

net::awaitable<void> TaskGroup::close_all(std::shared_ptr<State> state) {
  state->stop_all();
  struct Closer {
    explicit Closer(State& s) : state(s), timer(s.closers.emplace(s.closers.end(), s.executor)) {}
    ~Closer() { state.closers.erase(timer); }
    State& state;
    std::list<net::steady_timer>::iterator timer;
  } closer(*state);
  while (!state->running.empty()) {
    closer.timer->expires_after(kPatience);
    const auto [error] = co_await closer.timer->async_wait(net::as_tuple(net::use_awaitable));
    if (error) continue;
    for (const Task& task : state->running) log_warn("task still running", {{"task", task.name}});
  }
}

std::size_t TaskGroup::size() const { return state_->running.size(); }

}  // namespace osb
