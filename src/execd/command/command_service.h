#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "api/execd_requests.h"
#include "async/task_group.h"
#include "execd/command/command_options.h"
#include "execd/metrics/telemetry.h"
#include "execd/run/environment.h"
#include "execd/run/interruptible.h"
#include "execd/run/outcome.h"
#include "execd/run/run.h"
#include "execd/run/run_host.h"
#include "sys/passwd.h"

namespace osb::execd {

// One command, running or finished, as status, logs and event streams need it.
struct Command {
  std::string id;
  std::string content;  // the shell's text, or the arguments as a JSON array
  bool background = false;
  std::chrono::system_clock::time_point started_at;
  std::chrono::milliseconds spawn_time{0};

  std::shared_ptr<Run> run;           // null once finished, or when it could not be started
  std::shared_ptr<EventLog> events;   // never null
  std::shared_ptr<OutputLog> output;  // background only; null when it has been given up
  std::uint64_t output_end = 0;       // where the output ended when that happened

  // Set when the shell has ended.
  std::optional<Outcome> outcome;
  std::chrono::system_clock::time_point finished_at;
  std::chrono::steady_clock::time_point kept_since;
  std::size_t kept_memory = 0;
  std::uint64_t kept_files = 0;

  bool running() const { return run != nullptr && !run->exited(); }
};

// Runs commands, by a shell or without one, and remembers them. One thread. Everything given to the constructor
// outlives it, and it outlives the loop's last turn.
class CommandService final : public Interruptible {
 public:
  CommandService(RunHost& host, CommandEnvironment& environment, CommandOptions options,
                 Telemetry& telemetry = no_telemetry());
  ~CommandService() override;

  // Starts it. An error is a request that cannot be carried out as it stands (cwd, user). A shell or program that
  // could not be started is told by the events (init, error) instead; in the background it also leaves a record.
  Result<std::shared_ptr<Command>> start(const api::RunCommand& request);

  // Null: unknown, or forgotten.
  std::shared_ptr<Command> find(std::string_view id) const;
  net::awaitable<std::optional<Result<void>>> interrupt(std::string id) override;

  // Takes no more commands, ends the running ones (SIGTERM, after `grace` SIGKILL) and returns when their streams have
  // their final event.
  net::awaitable<void> shutdown(std::chrono::milliseconds grace);

  // Forgets the commands that ended longer ago than the retention. Happens by itself when it is time.
  void expire();

  std::size_t known() const { return commands_.size(); }
  std::size_t running() const { return commands_.size() - finished_.size(); }

 private:
  struct IdHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view id) const { return std::hash<std::string_view>()(id); }
  };

  Result<sys::SpawnPlan> plan(const api::RunCommand& request, const Environment& env);
  Result<void> set_program(const api::RunCommand& request, const Environment& env, sys::SpawnPlan& plan);
  void finished(const std::shared_ptr<Command>& command);
  void drop_output(Command& command);
  void forget_oldest();
  void schedule_expiry();

  RunHost& host_;
  CommandEnvironment& environment_;
  Telemetry& telemetry_;
  sys::UserDatabase users_;
  const CommandOptions options_;
  std::unordered_map<std::string, std::shared_ptr<Command>, IdHash, std::equal_to<>> commands_;
  // In order of their end. The first `without_output_` of them have lost their output.
  std::deque<std::shared_ptr<Command>> finished_;
  std::size_t without_output_ = 0;
  std::size_t kept_memory_ = 0;
  std::uint64_t kept_files_ = 0;
  std::size_t kept_text_ = 0;
  TaskGroup stops_;  // of shutdown()
  struct Expiry;
  std::unique_ptr<Expiry> expiry_;
  bool closing_ = false;
};

}  // namespace osb::execd
