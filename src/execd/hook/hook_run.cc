#include "execd/hook/hook_run.h"

#include <utility>

#include "async/race.h"
#include "base/duration.h"
#include "base/id.h"
#include "base/json_escape.h"
#include "base/utf8.h"
#include "execd/run/event_writer.h"

namespace osb::execd {

using namespace race;

namespace {

constexpr std::chrono::seconds kGrace{5};
constexpr std::size_t kMostOutput = 64 << 10;
constexpr std::size_t kMostLine = 4096;
constexpr std::size_t kTail = 512;
constexpr int kTimedOut = 124, kNotExecutable = 126, kNotFound = 127;

int shell_code(const sys::ExitStatus& status) { return status.signal != 0 ? 128 + status.signal : status.code; }

}  // namespace

HookRun::HookRun(RunHost& host, const CommandEnvironment& environment, HookCommand command, HookOutput output)
    : host_(host),
      environment_(environment),
      command_(std::move(command)),
      output_(std::move(output)),
      ended_(host.executor()),
      splitter_(kMostLine) {}

Result<void> HookRun::start() {
  const Environment env = environment_.for_command({});
  auto program = CommandEnvironment::program(command_.argv.front(), env);
  if (!program) return Failure(program.error());
  RunPlan plan;
  plan.id = new_hex_id();
  plan.process.program = std::move(*program);
  plan.process.argv = command_.argv;
  plan.process.env = to_environ(env);
  plan.process.cwd = environment_.cwd();
  plan.process.group = sys::SpawnPlan::Group::NewSession;
  plan.merge_stderr = true;
  plan.log = {.ring_bytes = 4096, .spill_bytes = 0, .spill_directory = "", .hold_for_readers = false};
  plan.on_output = [this](std::string_view bytes) { take(bytes); };
  plan.on_end = [this](const RunEnd&, EventWriter&) { ended_.set(); };
  run_ = std::make_shared<Run>(host_, std::move(plan));
  return run_->start();
}

net::awaitable<HookEnd> HookRun::run() {
  if (const auto started = start(); !started) {
    run_.reset();
    const int code =
        started.error().code == Code::NotFound || started.error().sys_errno == ENOENT ? kNotFound : kNotExecutable;
    co_return HookEnd{code, command_.title + " could not be started: " + started.error().message};
  }
  (void)co_await (ended_.wait() || sleep_for(command_.timeout));
  if (!ended_.is_set()) {
    timed_out_ = true;
    (void)co_await run_->stop(kGrace, Run::StopCause::Shutdown);
    (void)co_await ended_.wait();
  }
  co_return describe();
}

void HookRun::take(std::string_view bytes) {
  tail_.append(bytes.substr(bytes.size() - std::min(bytes.size(), kTail)));
  if (tail_.size() > kTail) tail_.erase(0, tail_.size() - kTail);
  splitter_.feed(bytes, [this](std::string_view line) { write(line); });
  if (!pending_.empty()) output_(std::exchange(pending_, {}));
}

void HookRun::write(std::string_view line) {
  const std::string title = "[" + command_.title + "] ";
  const std::size_t size = title.size() + line.size() + 1;
  if (dropped_ > 0 || written_ + size > kMostOutput) {
    dropped_ += line.size() + 1;
    return;
  }
  written_ += size;
  pending_ += title;
  pending_ += line;
  pending_ += '\n';
}

// Where it was cut in the middle of a character or a line, that is left out.
std::string HookRun::last_output() {
  std::string_view text = tail_;
  if (text.size() == kTail) {
    const std::size_t newline = text.find('\n');
    if (newline != std::string_view::npos && newline + 1 < text.size()) text.remove_prefix(newline + 1);
  }
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::string out;
  for (const char *p = text.data(), *const end = p + text.size(); p < end;) {
    const std::size_t length = utf8_sequence_length(p, end);
    const bool plain = length > 1 || (length == 1 && (*p >= ' ' || *p == '\n' || *p == '\t') && *p != 0x7F);
    out.append(plain ? std::string_view(p, length) : std::string_view("?"));
    p += std::max<std::size_t>(length, 1);
  }
  return out;
}

HookEnd HookRun::describe() {
  splitter_.finish([this](std::string_view line) { write(line); });
  if (dropped_ > 0) pending_ += "[" + command_.title + "] " + std::to_string(dropped_) + " more bytes are left out\n";
  if (!pending_.empty()) output_(std::exchange(pending_, {}));
  const sys::ExitStatus& status = run_->end().status;
  HookEnd out{shell_code(status), ""};
  if (timed_out_) {
    out.code = kTimedOut;
    out.failure = command_.title + " was still running after " + format_duration(command_.timeout) + " and was ended";
  } else if (status.signal != 0) {
    out.failure = command_.title + " was ended by signal " + std::to_string(status.signal);
  } else if (status.code != 0) {
    out.failure = command_.title + " ended with exit code " + std::to_string(status.code);
  }
  const std::string last = out.failure.empty() ? "" : last_output();
  if (!last.empty()) out.failure += "; its last output: " + in_quotes(last, 4 * kTail);
  return out;
}

}  // namespace osb::execd
