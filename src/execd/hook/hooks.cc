#include "execd/hook/hooks.h"

#include <algorithm>

#include "async/race.h"
#include "base/json_escape.h"
#include "base/log.h"
#include "execd/run/small_file.h"

namespace osb::execd {

using namespace race;

namespace {

constexpr int kUnreadable = 126;
constexpr std::size_t kMostZone = 256 << 10;
// The wall clock may be set while a hook waits.
constexpr std::chrono::hours kLookAgain{1};

Result<TimeZone> find_zone(const std::string& name) {
  if (name.empty()) return TimeZone();
  const std::string path = "/usr/share/zoneinfo/" + name;
  const auto content = read_small_file(path, kMostZone);
  if (!content) return fail(Code::NotFound, "time zone " + name + ": the image has no " + path);
  auto zone = TimeZone::from_file(*content);
  if (!zone) return with_context(path, zone.error());
  return zone;
}

}  // namespace

Hooks::Hooks(RunHost& host, const CommandEnvironment& environment, std::string lifecycle, HookOutput output,
             StartupStatus status)
    : host_(host),
      environment_(environment),
      text_(std::move(lifecycle)),
      output_(std::move(output)),
      status_(std::move(status)),
      tasks_(host.executor()) {}

Result<void> Hooks::read() {
  pre_start_.reset();
  periodic_.clear();
  if (text_.empty()) return {};
  auto lifecycle = api::decode_hooks(text_);
  if (!lifecycle) return Failure(lifecycle.error());
  if (lifecycle->pre_start) {
    pre_start_ = HookCommand{"preStart hook", lifecycle->pre_start->command, lifecycle->pre_start->timeout};
  }
  for (api::PeriodicHook& hook : lifecycle->periodic) {
    const std::string title = "periodic hook " + in_quotes(hook.name);
    auto schedule = CronSchedule::parse(hook.schedule);
    if (!schedule) return with_context(title, schedule.error());
    auto zone = find_zone(schedule->zone());
    if (!zone) return with_context(title, zone.error());
    periodic_.push_back({{title, std::move(hook.command), hook.timeout}, std::move(*schedule), *zone});
  }
  return {};
}

Result<void> Hooks::replace(std::string lifecycle) {
  std::swap(text_, lifecycle);
  auto readable = read();
  if (!readable) std::swap(text_, lifecycle);
  return readable;
}

net::awaitable<HookEnd> Hooks::run_pre_start() {
  if (const auto readable = read(); !readable) {
    co_return HookEnd{kUnreadable, "the lifecycle hooks cannot be used: " + readable.error().message};
  }
  if (!pre_start_) co_return HookEnd();
  if (const auto told = status_.running(pre_start_->timeout); !told) {
    co_return HookEnd{kUnreadable, "preStart hook was not started: " + told.error().message};
  }
  co_return co_await run_one(*pre_start_);
}

net::awaitable<HookEnd> Hooks::begin() {
  HookEnd end = co_await run_pre_start();
  const auto told = status_.done(end.failure.empty());
  if (!told && end.failure.empty()) end = {kUnreadable, "the end of the start cannot be told: " + told.error().message};
  co_return end;
}

void Hooks::start_periodic() {
  for (const Periodic& hook : periodic_) tasks_.spawn(hook.command.title, repeat(hook));
}

// `hook` belongs to this object, which waits for its tasks.
net::awaitable<void> Hooks::repeat(const Periodic& hook) {
  const Clock& clock = host_.clock();
  const auto now = [&clock] { return std::chrono::floor<std::chrono::seconds>(clock.now()); };
  for (auto due = hook.schedule.next(now(), hook.zone); due; due = hook.schedule.next(now(), hook.zone)) {
    for (auto left = *due - clock.now(); left.count() > 0; left = *due - clock.now()) {
      if (!co_await sleep_for(std::min<std::chrono::nanoseconds>(left, kLookAgain))) co_return;
    }
    const HookEnd end = co_await run_one(hook.command);
    if (closing_) co_return;
    if (!end.failure.empty()) {
      log_warn("hook failed", {{"error", end.failure}});
      output_(end.failure + "\n");
    }
  }
}

net::awaitable<HookEnd> Hooks::run_one(HookCommand command) {
  if (closing_) co_return HookEnd();
  const auto run = running_.emplace(running_.end(), host_, environment_, std::move(command), output_);
  HookEnd end = co_await run->run();
  running_.erase(run);
  co_return end;
}

net::awaitable<void> Hooks::shutdown() {
  closing_ = true;
  return tasks_.close();
}

}  // namespace osb::execd
