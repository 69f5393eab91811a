#include "execd/code/jupyter/jupyter_runner.h"

#include <utility>
#include <vector>

#include "async/race.h"
#include "base/concat.h"
#include "base/deadline.h"
#include "base/id.h"
#include "base/log.h"

namespace osb::execd::jupyter {
namespace {

using namespace std::chrono_literals;
using namespace race;

constexpr auto kStart = 24s;  // below the 25 s that a context waits for its runner
// A kernel whose output channel is not connected yet loses a request: it is asked again.
constexpr auto kProbe = 1s;
constexpr auto kReconnect = 3s;
constexpr auto kReconnectWait = 100ms;
// Kernels say that they begin with the code; one that does not is taken to have begun after this time.
constexpr auto kBegin = 300ms;
constexpr auto kInterruptAgain = 1s;

}  // namespace

std::shared_ptr<CodeRunner> JupyterRunner::start(const net::any_io_executor& executor, JupyterServer& server,
                                                 TaskGroup& tasks, std::string language, std::string cwd) {
  std::shared_ptr<JupyterRunner> runner(
      new JupyterRunner(executor, server, tasks, std::move(language), std::move(cwd)));
  tasks.spawn("Jupyter kernel", runner->live());
  return runner;
}

JupyterRunner::JupyterRunner(const net::any_io_executor& executor, JupyterServer& server, TaskGroup& tasks,
                             std::string language, std::string cwd)
    : executor_(executor),
      server_(server),
      tasks_(tasks),
      language_(std::move(language)),
      cwd_(std::move(cwd)),
      client_(new_hex_id()),
      changed_(executor),
      stop_(executor) {}

std::string JupyterRunner::new_message_id() { return concat(client_, "-", ++messages_); }

// ---- the life of the kernel

net::awaitable<void> JupyterRunner::live() {
  const auto self = shared_from_this();
  if (auto opened = co_await open(); !opened) {
    end(opened.error().message);
  } else {
    const auto served = co_await (serve() || stop_.wait());
    if (const auto* failed = std::get_if<0>(&served)) end(*failed ? "it ended" : failed->error().message);
  }
  socket_.reset();
  if (!session_.id.empty()) {
    if (auto closed = co_await server_.close_session(session_.id); !closed) {
      log_warn("Jupyter session not closed", {{"error", closed.error().message}});
    }
  }
  gone_ = true;
  changed_.notify_all();
}

// A session that the server makes while we stop waiting would stay for ever, so only the search for a kernel is
// stopped.
net::awaitable<Result<void>> JupyterRunner::open() {
  auto found = co_await (server_.find_kernel(language_, kStart) || stop_.wait());
  auto* kernel = std::get_if<0>(&found);
  if (kernel == nullptr) co_return Result<void>();  // killed; the end is known
  if (!*kernel) co_return Failure(kernel->error());
  auto session = co_await server_.open_session(**kernel, cwd_);
  if (!session) co_return Failure(session.error());
  session_ = std::move(*session);
  co_return Result<void>();
}

net::awaitable<Result<void>> JupyterRunner::serve() {
  if (stop_.is_set()) co_return Result<void>();
  for (;;) {
    if (auto connected = co_await connect(); !connected) co_return connected;
    begin_probe();
    auto ended = co_await (read_messages() || probe());
    if (auto* broken = std::get_if<0>(&ended)) {
      if (!alive()) co_return *broken;
      on_lost_connection(broken->error());
      continue;
    }
    if (!std::exchange(ready_, true)) changed_.notify_all();
    if (cell_ && request_id_.empty()) tasks_.spawn("Jupyter run", execute(cell_));
    if (auto read = co_await read_messages(); !read) {
      if (!alive()) co_return read;
      on_lost_connection(read.error());
    }
  }
}

// The server keeps messages from when it notices the loss. Those that it sent shortly before are gone, and no number
// tells which: the run says so.
void JupyterRunner::on_lost_connection(const Error& error) {
  log_info("connection to a Jupyter kernel lost", {{"error", error.message}});
  if (!cell_ || request_id_.empty()) return;
  cell_->output(true, "[the connection to the Jupyter kernel was lost during this run; output may be missing]\n");
  cell_->publish();
}

net::awaitable<Result<void>> JupyterRunner::connect() {
  const Deadline end(ready_ ? kReconnect : kStart);
  socket_.reset();
  for (;;) {
    auto socket = co_await server_.open_channels(session_.kernel_id, client_);
    if (socket) {
      socket_ = std::move(*socket);
      co_return Result<void>();
    }
    if (socket.error().code == Code::NotFound) {
      co_return fail(Code::NotFound, concat("the Jupyter server at ", server_.address(), " has ended it"));
    }
    if (end.passed()) co_return Failure(socket.error());
    if (!co_await sleep_for(kReconnectWait)) co_return fail(Code::Cancelled, "cancelled");
  }
}

void JupyterRunner::begin_probe() {
  probe_id_ = new_message_id();
  probe_reply_ = probe_idle_ = false;
}

// Returns when the kernel has answered on both of its channels. A kernel that runs code answers after that.
net::awaitable<void> JupyterRunner::probe() {
  while (!probe_id_.empty()) {
    const std::string request = encode_kernel_info_request(probe_id_, client_);
    if (!co_await socket_->send_text(request)) co_await stop_.wait();  // the reader reports it
    if (ready_) {
      co_await changed_.wait_until([this] { return probe_id_.empty(); });
    } else {
      co_await with_timeout(probe_answered(), kProbe);
    }
  }
}

net::awaitable<Result<void>> JupyterRunner::probe_answered() {
  co_await changed_.wait_until([this] { return probe_id_.empty(); });
  co_return Result<void>();
}

// Until the connection is lost, or the kernel has died.
net::awaitable<Result<void>> JupyterRunner::read_messages() {
  while (alive()) {
    while (cell_ && cell_->log()->congested()) co_await changed_.wait();
    auto got = co_await socket_->read();
    if (!got) co_return Failure(got.error());
    if (!got->text) continue;  // with binary buffers, for widgets
    auto message = decode_message(got->data);
    if (message) handle(std::move(*message));
    if (cell_) cell_->publish();
  }
  co_return fail(Code::Unavailable, end_);
}

// ---- messages

void JupyterRunner::handle(Message message) {
  const bool died = message.type == Message::Type::Status &&
                    (message.text == "dead" || message.text == "restarting" || message.text == "autorestarting");
  if (died) return end("it died");
  if (message.parent_id.empty()) return;
  if (message.parent_id == probe_id_) return handle_probe(message);
  if (cell_ && message.parent_id == request_id_) handle_cell(std::move(message));
}

void JupyterRunner::handle_probe(const Message& message) {
  if (message.type == Message::Type::InfoReply) probe_reply_ = true;
  if (message.type == Message::Type::Status && message.text == "idle") probe_idle_ = true;
  if (!probe_reply_ || !probe_idle_) return;
  probe_id_.clear();
  // The kernel takes requests in their order: it has ended the code that was sent before, and would have said so.
  if (cell_ && !request_id_.empty()) {
    if (interrupt_wanted_) {
      cell_->error("KeyboardInterrupt", "the code was interrupted", {});
    } else {
      cell_->error("ConnectionLost",
                   "the connection to the Jupyter kernel was lost; the code may not have run to its end", {});
    }
    end_cell();
  }
  changed_.notify_all();
}

void JupyterRunner::handle_cell(Message message) {
  using Type = Message::Type;
  const auto begin = [this] {
    if (!std::exchange(started_, true)) changed_.notify_all();
  };
  switch (message.type) {
    case Type::Status:
      if (message.text == "busy") busy_ = true;
      if (message.text == "idle") idle_ = true;
      changed_.notify_all();
      break;
    case Type::Input:
      begin();
      break;
    case Type::Stream:
      begin();
      cell_->output(message.is_stderr, message.text);
      break;
    case Type::Result:
    case Type::Display:
      begin();
      cell_->result(message.data, message.type == Type::Display, message.count);
      break;
    case Type::Error:
      cell_->error(message.ename, message.evalue, message.traceback);
      break;
    case Type::Reply:
      reply_ = true;
      // Kernels that report an error in their reply only.
      if (message.text == "error" && !cell_->failed()) {
        cell_->error(message.ename.empty() ? "Error" : message.ename, message.evalue, message.traceback);
      }
      if (message.text == "aborted" || message.text == "abort") {
        cell_->error("Aborted", "the kernel did not run the code", std::vector<std::string>());
      }
      break;
    case Type::InfoReply:
    case Type::Other:
      break;
  }
  if (reply_ && idle_) end_cell();
}

// ---- a cell

void JupyterRunner::run(std::shared_ptr<Cell> cell, std::string_view code, const RunSettings&) {
  cell_ = std::move(cell);
  code_ = code;
  request_id_.clear();
  busy_ = started_ = reply_ = idle_ = interrupt_wanted_ = false;
  cell_->log()->on_room([this] { changed_.notify_all(); });
  cell_->publish();
  if (ready_ && probe_id_.empty()) tasks_.spawn("Jupyter run", execute(cell_));
}

net::awaitable<void> JupyterRunner::execute(std::shared_ptr<Cell> cell) {
  const auto self = shared_from_this();
  // An interrupt of the run before must not reach this one.
  co_await changed_.wait_until([this] { return !interrupting_ || !alive(); });
  if (cell_ != cell || !request_id_.empty() || !socket_) co_return;
  request_id_ = new_message_id();
  const std::string request = encode_execute_request(request_id_, client_, std::exchange(code_, {}));
  const auto socket = socket_;
  // A failure is the reader's to see: the connection is made again, and the probe then tells that the run is lost.
  static_cast<void>(co_await socket->send_text(request));
}

void JupyterRunner::end_cell() {
  request_id_.clear();
  const auto ended = std::exchange(cell_, nullptr);
  ended->finish();
  changed_.notify_all();
}

void JupyterRunner::interrupt() {
  if (!cell_ || !alive() || std::exchange(interrupt_wanted_, true)) return;
  tasks_.spawn("Jupyter interrupt", keep_interrupting(cell_));
}

// A signal that comes before the kernel has begun with the code would be lost, and one that comes while the kernel is
// busy with itself may be, or make it forget to report the end. So it is repeated, and the kernel is asked whether it
// still runs the code.
net::awaitable<void> JupyterRunner::keep_interrupting(std::shared_ptr<Cell> cell) {
  const auto self = shared_from_this();
  const auto current = [&] { return cell_ == cell && alive(); };
  co_await changed_.wait_until([&] { return !current() || busy_ || started_; });
  const auto begun = [&]() -> net::awaitable<Result<void>> {
    co_await changed_.wait_until([&] { return !current() || started_; });
    co_return Result<void>();
  };
  if (current() && !started_) co_await with_timeout(begun(), kBegin);
  while (current()) {
    interrupting_ = true;
    auto asked = co_await server_.interrupt(session_.kernel_id);
    interrupting_ = false;
    changed_.notify_all();
    if (!asked) log_warn("Jupyter kernel not interrupted", {{"error", asked.error().message}});
    if (co_await cell->wait_end(kInterruptAgain)) co_return;
    if (!current() || !socket_ || !ready_) continue;
    begin_probe();
    const auto socket = socket_;
    const std::string request = encode_kernel_info_request(probe_id_, client_);
    static_cast<void>(co_await socket->send_text(request));
    if (co_await cell->wait_end(kInterruptAgain)) co_return;
  }
}

// ---- the end

void JupyterRunner::end(std::string why) {
  if (!alive()) return;
  end_ = why.empty() ? "it ended" : std::move(why);
  if (const auto cell = std::exchange(cell_, nullptr)) {
    cell->fail(killed_ ? kKernelKilled : kKernelDied,
               end_text() + ". Its state is gone; the next run starts with a new kernel.");
  }
  stop_.set();
  changed_.notify_all();
}

void JupyterRunner::kill(std::string why) {
  if (!alive()) return;
  killed_ = true;
  end(std::move(why));
}

std::string JupyterRunner::end_text() const {
  if (alive()) return {};
  if (killed_) return concat("the Jupyter kernel of this context was ended: ", end_);
  if (!ready_) return concat("no Jupyter kernel for ", language_, ": ", end_);
  return concat("the Jupyter kernel of this context is gone: ", end_);
}

net::awaitable<Result<void>> JupyterRunner::ready(std::chrono::milliseconds limit) {
  const auto self = shared_from_this();
  const auto wait = [](JupyterRunner& runner) -> net::awaitable<Result<void>> {
    co_await runner.changed_.wait_until([&runner] { return runner.ready_ || !runner.alive(); });
    co_return Result<void>();
  };
  if (!ready_ && alive()) co_await with_timeout(wait(*this), limit);
  if (!alive()) co_return fail(Code::Unavailable, end_text());
  if (ready_) co_return Result<void>();
  co_return fail(Code::Timeout, concat("the Jupyter kernel for ", language_, " takes no code after ", limit.count(),
                                       " ms; look at the log of the Jupyter server at ", server_.address()));
}

net::awaitable<void> JupyterRunner::wait_gone() {
  const auto self = shared_from_this();
  co_await changed_.wait_until([this] { return gone_; });
}

}  // namespace osb::execd::jupyter
