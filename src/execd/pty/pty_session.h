#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/execd_requests.h"
#include "async/net.h"
#include "async/task_group.h"
#include "base/error.h"
#include "execd/pty/client_frame.h"
#include "execd/pty/pty_client.h"
#include "execd/pty/pty_shell.h"
#include "execd/pty/replay_buffer.h"
#include "execd/run/environment.h"
#include "execd/run/run_host.h"

namespace osb::execd {

// One interactive shell with its output so far, and the connections that look at it: at most one that also types (the
// holder), any number of viewers. Shared by the service, its connections and its tasks; one thread.
//
// The holder holds the shell back when it does not take the output. A viewer does not: it gets a new replay frame once
// it has fallen behind too far.
class PtySession : public std::enable_shared_from_this<PtySession>, private PtyShell::Owner {
 public:
  struct Plan {
    std::string id;
    std::string cwd = {};
    std::string command = {};  // empty: an interactive shell
    api::EnvMap envs = {};     // above the daemon's
    // As in sys::SpawnPlan. Not the plan itself: there may be thousands of sessions without a client.
    std::optional<uid_t> uid = {};
    std::optional<gid_t> gid = {};
    std::optional<std::vector<gid_t>> groups = {};
  };
  PtySession(RunHost& host, CommandEnvironment& environment, TaskGroup& tasks, Plan plan);
  ~PtySession() override;

  const std::string& id() const { return plan_.id; }
  bool running() const { return shell_ != nullptr; }
  bool held() const { return holder_ != nullptr; }
  bool deleted() const { return deleted_; }
  std::uint64_t output_offset() const { return replay_.end(); }
  std::string_view mode() const { return mode_ == PtyShell::Mode::Terminal ? "pty" : "pipe"; }

  // Starts the shell unless one is running.
  Result<void> start(PtyShell::Mode mode);

  // Makes the client see all output from `since` on: returns what there is already, as a frame (empty: nothing), and
  // queues what follows. The present holder, if the client is one too, gets a message that it was taken over.
  std::string attach(const std::shared_ptr<PtyClient>& client, std::uint64_t since);
  // The same again for a viewer that had fallen behind.
  std::string catch_up(PtyClient& client);
  void detach(const std::shared_ptr<PtyClient>& client);
  // A client has sent something of its queue.
  void drained(const PtyClient& client);

  // From the holder. Returns when there is room for it, not when the shell has read it.
  net::awaitable<void> input(std::string bytes);
  void end_input();
  // How much of it the present shell was given.
  std::uint64_t input_offset() const;
  void signal(int number);
  void resize(int columns, int rows);

  // Kills the shell, tells clients that the session is gone. Returns when the processes have ended.
  net::awaitable<void> remove();
  // Until the shell, if there is one, has ended and its output is complete.
  net::awaitable<void> ended();

 private:
  void on_output(PtyShell& shell, char tag, std::string_view bytes) override;
  bool has_room() const override;
  void on_input_taken(PtyShell& shell, std::uint64_t offset) override;
  void on_input_failed(PtyShell& shell, const Error& error) override;
  void on_end(PtyShell& shell, sys::ExitStatus status, const std::optional<EndReason>& reason) override;
  void end_clients(const PtyClient::End& end);

  RunHost& host_;
  CommandEnvironment& environment_;
  TaskGroup& tasks_;
  const Plan plan_;
  PtyShell::Mode mode_ = PtyShell::Mode::Terminal;
  ReplayBuffer replay_;
  std::shared_ptr<PtyShell> shell_;  // null: not running
  std::shared_ptr<PtyClient> holder_;
  std::vector<std::shared_ptr<PtyClient>> viewers_;
  bool deleted_ = false;
};

}  // namespace osb::execd
