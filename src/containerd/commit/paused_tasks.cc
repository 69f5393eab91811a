#include "containerd/commit/paused_tasks.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "async/timer.h"
#include "base/backoff.h"
#include "base/log.h"

namespace osb::containerd {
namespace {

// Together less than the time between SIGTERM and SIGKILL of a pod, 30 s.
constexpr std::chrono::milliseconds kFirstPause(100), kLastPause(6400);
constexpr int kAttempts = 8;

bool stands_still(TaskStatus status) { return status == TaskStatus::Paused || status == TaskStatus::Pausing; }

}  // namespace

void PausedTasks::remember(const std::string& container) {
  if (std::ranges::find(paused_, container) == paused_.end()) paused_.push_back(container);
}

net::awaitable<Result<TaskStatus>> PausedTasks::adopt(std::string container) {
  const auto status = co_await client_.task(container);
  if (!status && status.error().code == Code::NotFound) co_return TaskStatus::Stopped;
  if (status && stands_still(*status)) remember(container);
  co_return status;
}

net::awaitable<Result<bool>> PausedTasks::pause(std::string container) {
  const auto status = co_await adopt(container);
  if (!status) co_return Failure(status.error());
  if (stands_still(*status)) co_return true;
  if (*status != TaskStatus::Running) {
    log_info("nothing to pause", {{"container", container}});
    co_return false;
  }
  remember(container);
  const auto done = co_await client_.pause(container);
  if (done) co_return true;
  if (done.error().code == Code::Unavailable || done.error().code == Code::Timeout) co_return Failure(done.error());
  log_warn("not paused, its files may change while they are read",
           {{"container", container}, {"error", done.error().message}});
  co_return false;
}

net::awaitable<Result<bool>> PausedTasks::is_paused(std::string container) {
  const auto status = co_await client_.task(container);
  if (!status && status.error().code == Code::NotFound) co_return false;
  if (!status) co_return Failure(status.error());
  co_return stands_still(*status);
}

net::awaitable<Result<void>> PausedTasks::resume(std::string container) {
  const auto paused = co_await is_paused(container);
  if (!paused) co_return Failure(paused.error());
  if (!*paused) co_return Result<void>();
  auto done = co_await client_.resume(container);
  if (done) log_info("resumed", {{"container", container}});
  co_return done;
}

net::awaitable<Result<void>> PausedTasks::resume_all() {
  Backoff pause(kFirstPause, kLastPause);
  std::optional<Error> failed;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    failed.reset();
    std::vector<std::string> left;
    for (const std::string& container : paused_) {
      const auto done = co_await resume(container);
      if (done) continue;
      failed = done.error();
      left.push_back(container);
    }
    paused_ = std::move(left);
    if (paused_.empty()) co_return Result<void>();
    log_warn("not resumed, tried again", {{"container", paused_.front()}, {"error", failed->message}});
    if (!co_await sleep_for(pause.next())) break;
  }
  if (failed) co_return Failure(*failed);
  co_return Result<void>();
}

}  // namespace osb::containerd
