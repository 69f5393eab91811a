#include "execd/command/command_service.h"

#include <utility>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "async/timer.h"
#include "base/id.h"
#include "base/json_escape.h"
#include "base/log.h"
#include "base/mask_secrets.h"
#include "base/time.h"
#include "execd/run/account.h"

namespace osb::execd {
namespace {

constexpr int kNotStarted = 255;
constexpr std::size_t kLoggedText = 500;

// As the contract has it: a JSON array.
std::string content_of(const api::RunCommand& request) {
  if (request.argv.empty()) return request.command;
  std::string out;
  for (const std::string& argument : request.argv) {
    out += out.empty() ? '[' : ',';
    append_json_string(out, argument);
  }
  return out + ']';
}

}  // namespace

struct CommandService::Expiry {
  explicit Expiry(const net::any_io_executor& executor) : timer(executor) {}
  net::steady_timer timer;
  bool armed = false;
};

CommandService::CommandService(RunHost& host, CommandEnvironment& environment, CommandOptions options,
                               Telemetry& telemetry)
    : host_(host),
      environment_(environment),
      telemetry_(telemetry),
      options_(std::move(options)),
      stops_(host.executor()),
      expiry_(std::make_unique<Expiry>(host.executor())) {}

CommandService::~CommandService() = default;

Result<void> CommandService::set_program(const api::RunCommand& request, const Environment& env, sys::SpawnPlan& plan) {
  auto program = request.argv.empty() ? environment_.shell() : CommandEnvironment::program(request.argv.front(), env);
  if (!program) return Failure(program.error());
  plan.program = *program;
  plan.argv = request.argv;
  if (request.argv.empty()) plan.argv = {*program, "-c", request.command};
  return {};
}

Result<sys::SpawnPlan> CommandService::plan(const api::RunCommand& request, const Environment& env) {
  sys::SpawnPlan plan;
  auto cwd = environment_.directory(request.cwd, env);
  if (!cwd) return Failure(cwd.error());
  plan.cwd = std::move(*cwd);
  if (auto set = set_account(users_, request.user, request.uid, request.gid, plan); !set) return Failure(set.error());
  plan.env = to_environ(env);
  return plan;
}

Result<std::shared_ptr<Command>> CommandService::start(const api::RunCommand& request) {
  if (closing_) return fail(Code::Unavailable, "the daemon is shutting down");
  const Environment env = environment_.for_command(request.envs);
  auto process = plan(request, env);
  if (!process) return Failure(process.error());

  auto command = std::make_shared<Command>();
  command->id = new_hex_id();
  command->content = content_of(request);
  command->background = request.background;
  command->started_at = host_.clock().now();
  if (request.background) {
    command->output = std::make_shared<OutputLog>(options_.temp_directory, options_.log_bytes);
  }
  const auto before = host_.clock().steady_now();

  const Result<void> ready = set_program(request, env, *process);
  RunPlan run_plan;
  run_plan.id = command->id;
  run_plan.init_text = command->id;
  run_plan.process = std::move(*process);
  run_plan.merge_stderr = request.background;
  run_plan.timeout = request.timeout;
  run_plan.log = options_.event_log(!request.background);
  run_plan.raw = command->output;
  run_plan.on_end = [this, weak = std::weak_ptr(command)](const RunEnd& end, EventWriter& writer) {
    write_outcome(writer, end);
    telemetry_.record_execution("run_command", end.status.ok(), end.took);
    if (const auto ended = weak.lock()) {
      ended->outcome = outcome_of(end.status, end.reason);
      ended->finished_at = end.at;
      finished(ended);
    }
  };
  command->run = std::make_shared<Run>(host_, std::move(run_plan));
  command->events = command->run->log();
  // Registered before the client sees its id.
  commands_.emplace(command->id, command);

  const Result<void> started = ready ? command->run->start() : ready;
  command->spawn_time = std::chrono::duration_cast<std::chrono::milliseconds>(host_.clock().steady_now() - before);
  if (log_enabled(LogLevel::Info)) {
    const std::string text = mask_secrets(std::string_view(command->content).substr(0, kLoggedText));
    log_info("command", {{"id", command->id},
                         {"background", request.background},
                         {"command", text},
                         {"error", started ? "" : started.error().message}});
  }
  if (!started) {
    command->run->fail(kCommandError, started.error().message);
    command->outcome = Outcome{kNotStarted, started.error().message};
    command->finished_at = host_.clock().now();
    if (request.background) {
      finished(command);
    } else {
      command->run.reset();
      commands_.erase(command->id);
    }
  }
  return command;
}

std::shared_ptr<Command> CommandService::find(std::string_view id) const {
  const auto it = commands_.find(id);
  return it == commands_.end() ? nullptr : it->second;
}

net::awaitable<std::optional<Result<void>>> CommandService::interrupt(std::string id) {
  const std::shared_ptr<Command> command = find(id);
  if (!command) co_return std::nullopt;
  const std::shared_ptr<Run> run = command->run;
  if (!run || !co_await run->stop(options_.interrupt_grace, Run::StopCause::UserInterrupt)) {
    co_return Result<void>(fail(Code::Internal, "command " + id + " has finished already"));
  }
  co_return Result<void>();
}

net::awaitable<void> CommandService::shutdown(std::chrono::milliseconds grace) {
  closing_ = true;
  expiry_->timer.cancel();
  std::vector<std::shared_ptr<Run>> runs;
  for (const auto& [id, command] : commands_) {
    if (command->running()) runs.push_back(command->run);
  }
  // Shared, because the tasks may outlive a cancelled caller.
  struct Progress {
    Progress(const net::any_io_executor& executor, std::size_t count) : left(count), changed(executor) {}
    std::size_t left;
    Notifier changed;
  };
  const auto progress = std::make_shared<Progress>(host_.executor(), runs.size());
  for (auto& run : runs) {
    auto stop = [](std::shared_ptr<Run> one, std::chrono::milliseconds time,
                   std::shared_ptr<Progress> all) -> net::awaitable<void> {
      co_await one->stop(time, Run::StopCause::Shutdown);
      --all->left;
      all->changed.notify_all();
    };
    stops_.spawn("stop command", stop(std::move(run), grace, progress));
  }
  co_await progress->changed.wait_until([&] { return progress->left == 0; });
  co_await stops_.close();
  host_.close();
}

void CommandService::finished(const std::shared_ptr<Command>& command) {
  command->run.reset();
  command->kept_since = host_.clock().steady_now();
  command->kept_memory = command->events->memory_bytes();
  kept_text_ += command->content.size();
  command->kept_files = command->events->file_bytes() + (command->output ? command->output->file_bytes() : 0);
  kept_memory_ += command->kept_memory;
  kept_files_ += command->kept_files;
  finished_.push_back(command);
  const auto too_much = [&] {
    return finished_.size() - without_output_ > options_.finished_with_output ||
           kept_memory_ > options_.finished_memory || kept_files_ > options_.finished_files;
  };
  while (without_output_ < finished_.size() && too_much()) drop_output(*finished_[without_output_++]);
  while (finished_.size() > options_.finished || kept_text_ > options_.finished_memory) forget_oldest();
  schedule_expiry();
}

void CommandService::drop_output(Command& command) {
  kept_memory_ -= std::exchange(command.kept_memory, 0);
  kept_files_ -= std::exchange(command.kept_files, 0);
  command.events = command.events->last_event_only();
  if (command.output) command.output_end = command.output->end();
  command.output.reset();
}

void CommandService::forget_oldest() {
  const std::shared_ptr<Command> command = std::move(finished_.front());
  finished_.pop_front();
  if (without_output_ > 0) {
    --without_output_;
  } else {
    kept_memory_ -= command->kept_memory;
    kept_files_ -= command->kept_files;
  }
  kept_text_ -= command->content.size();
  commands_.erase(command->id);
}

void CommandService::expire() {
  const auto now = host_.clock().steady_now();
  while (!finished_.empty() && finished_.front()->kept_since + options_.retention <= now) forget_oldest();
}

void CommandService::schedule_expiry() {
  if (expiry_->armed || closing_ || finished_.empty()) return;
  expiry_->armed = true;
  expiry_->timer.expires_after(finished_.front()->kept_since + options_.retention - host_.clock().steady_now());
  expiry_->timer.async_wait([this](boost::system::error_code stopped) {
    if (stopped) return;
    expiry_->armed = false;
    expire();
    schedule_expiry();
  });
}

}  // namespace osb::execd
