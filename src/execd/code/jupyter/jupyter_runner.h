#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "async/task_group.h"
#include "async/timer.h"
#include "execd/code/code_runner.h"
#include "execd/code/jupyter/jupyter_server.h"

namespace osb::execd::jupyter {

// A kernel of a Jupyter server: a session, and one WebSocket for as long as it lives. A connection that breaks is made
// again; the server keeps the messages meanwhile. The server restarts a kernel that has died: its state is gone, so the
// session is closed and the next run gets a new one.
class JupyterRunner final : public CodeRunner, public std::enable_shared_from_this<JupyterRunner> {
 public:
  // `server` and `tasks` outlive it; `tasks` run it.
  static std::shared_ptr<CodeRunner> start(const net::any_io_executor& executor, JupyterServer& server,
                                           TaskGroup& tasks, std::string language, std::string cwd);

  net::awaitable<Result<void>> ready(std::chrono::milliseconds limit) override;
  bool alive() const override { return end_.empty(); }
  std::string end_text() const override;
  void run(std::shared_ptr<Cell> cell, std::string_view code, const RunSettings& settings) override;
  void interrupt() override;
  void kill(std::string why) override;
  net::awaitable<void> wait_gone() override;

 private:
  JupyterRunner(const net::any_io_executor& executor, JupyterServer& server, TaskGroup& tasks, std::string language,
                std::string cwd);

  net::awaitable<void> live();
  net::awaitable<Result<void>> open();
  net::awaitable<Result<void>> serve();
  net::awaitable<Result<void>> connect();
  net::awaitable<Result<void>> read_messages();
  void on_lost_connection(const Error& error);
  void begin_probe();
  net::awaitable<void> probe();
  net::awaitable<Result<void>> probe_answered();
  net::awaitable<void> execute(std::shared_ptr<Cell> cell);
  net::awaitable<void> keep_interrupting(std::shared_ptr<Cell> cell);
  void handle(Message message);
  void handle_probe(const Message& message);
  void handle_cell(Message message);
  void end_cell();
  void end(std::string why);
  std::string new_message_id();

  const net::any_io_executor executor_;
  JupyterServer& server_;
  TaskGroup& tasks_;
  const std::string language_;
  const std::string cwd_;
  const std::string client_;  // names this connection to the server
  Session session_;
  std::shared_ptr<http::WebSocket> socket_;
  std::uint64_t messages_ = 0;
  Notifier changed_;
  Event stop_;

  std::string probe_id_;  // asks the kernel for a sign of life; empty: it has given one
  bool probe_reply_ = false;
  bool probe_idle_ = false;

  std::shared_ptr<Cell> cell_;  // null: idle
  std::string code_;            // of a cell that was not sent yet
  std::string request_id_;      // of the cell; empty: not sent yet
  bool busy_ = false;           // the kernel has taken the request
  bool started_ = false;        // and runs the code: an interrupt reaches it
  bool reply_ = false;          // both ends of a run: the reply, and idle
  bool idle_ = false;
  bool interrupt_wanted_ = false;
  bool interrupting_ = false;  // a request for it is on its way

  bool ready_ = false;
  std::string end_;  // why it takes no more code; empty: it does
  bool killed_ = false;
  bool gone_ = false;
};

}  // namespace osb::execd::jupyter
