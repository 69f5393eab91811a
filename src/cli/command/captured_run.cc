#include "cli/command/captured_run.h"

#include "cli/command/remote_run.h"
#include "cli/encode.h"

namespace osb::cli {
namespace {

// From the first event to the last, by the sandbox's clock.
class Duration {
 public:
  void add(const opensandbox::ExecutionEvent& event) {
    if (event.timestamp == 0) return;
    if (first_ == 0) first_ = event.timestamp;
    last_ = event.timestamp;
  }
  double seconds(const opensandbox::Execution& run) const {
    const double milliseconds =
        run.execution_time ? static_cast<double>(run.execution_time->count()) : static_cast<double>(last_ - first_);
    return milliseconds / 1000;
  }

 private:
  std::int64_t first_ = 0, last_ = 0;  // unix ms
};

}  // namespace

Outcome run_captured(CommandIo& context, const opensandbox::Sandbox& sandbox, const RemoteProgram& program,
                     std::chrono::milliseconds timeout) {
  RemoteRun remote(context, RemoteRun::Output::Kept);
  opensandbox::RunOptions wanted;
  wanted.cwd = program.cwd;
  wanted.envs = program.env;
  wanted.user = program.user.name;
  wanted.uid = program.user.uid;
  wanted.gid = program.user.gid;
  wanted.timeout = timeout;
  const opensandbox::Commands commands = sandbox.commands();
  opensandbox::ExecutionHandlers handlers = remote.handlers(commands);
  Duration duration;
  handlers.on_event = [&duration, next = std::move(handlers.on_event)](const opensandbox::ExecutionEvent& event) {
    duration.add(event);
    return next(event);
  };
  const auto run = commands.run_program(program.argv, wanted, handlers);
  const Outcome outcome = remote.finish(run);
  if (!outcome) return outcome;
  const auto said = [&run](std::string opensandbox::ExecutionEvent::ErrorInfo::* field) {
    return run->error ? text_or_null((*run->error).*field) : json::value();
  };
  context.out().data(json::object{{"stdout", run->stdout_text()},
                                  {"stderr", run->stderr_text()},
                                  {"exit_code", *outcome},
                                  {"reason", said(&opensandbox::ExecutionEvent::ErrorInfo::reason)},
                                  {"reason_message", said(&opensandbox::ExecutionEvent::ErrorInfo::reason_message)},
                                  {"duration", duration.seconds(*run)}});
  return outcome;
}

}  // namespace osb::cli
