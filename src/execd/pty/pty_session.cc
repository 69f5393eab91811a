#include "execd/pty/pty_session.h"

#include <algorithm>
#include <utility>

namespace osb::execd {
namespace {

// Output that waits for the holder; more holds the shell back.
constexpr std::size_t kHolderQueue = 256 * 1024;
// Output that waits for a viewer; more is taken from the replay buffer instead.
constexpr std::size_t kViewerQueue = 512 * 1024;

}  // namespace

PtySession::PtySession(RunHost& host, CommandEnvironment& environment, TaskGroup& tasks, Plan plan)
    : host_(host), environment_(environment), tasks_(tasks), plan_(std::move(plan)) {}

PtySession::~PtySession() = default;

Result<void> PtySession::start(PtyShell::Mode mode) {
  if (shell_) return {};
  const auto program = environment_.shell();
  if (!program) return Failure(program.error());
  sys::SpawnPlan process;
  process.env = to_environ(environment_.for_command(plan_.envs));
  process.uid = plan_.uid;
  process.gid = plan_.gid;
  process.groups = plan_.groups;
  process.program = *program;
  if (program->ends_with("/bash")) {
    process.argv = {"bash", "--norc", "--noprofile"};
  } else {
    process.argv = {"sh"};
  }
  if (!plan_.command.empty()) process.argv.insert(process.argv.end(), {"-c", plan_.command});
  process.cwd = plan_.cwd;
  auto started = PtyShell::start(host_, tasks_, mode, std::move(process), *this, shared_from_this());
  if (!started) return Failure(started.error());
  mode_ = mode;
  shell_ = std::move(*started);
  return {};
}

std::string PtySession::attach(const std::shared_ptr<PtyClient>& client, std::uint64_t since) {
  if (client->read_only()) {
    viewers_.push_back(client);
  } else {
    if (holder_) holder_->finish({{}, 4001, "TAKEN_OVER", true});
    holder_ = client;
    if (shell_) shell_->room_changed();
  }
  client->caught_up(since);
  return catch_up(*client);
}

std::string PtySession::catch_up(PtyClient& client) {
  const std::uint64_t from = std::max(client.position(), replay_.begin());
  client.caught_up(replay_.end());
  if (from >= replay_.end()) return {};
  std::string frame = replay_head(from);
  frame.reserve(frame.size() + static_cast<std::size_t>(replay_.end() - from));
  replay_.copy_since(from, frame);
  return frame;
}

void PtySession::detach(const std::shared_ptr<PtyClient>& client) {
  std::erase(viewers_, client);
  if (holder_ != client) return;
  holder_.reset();
  if (shell_) shell_->room_changed();
}

void PtySession::drained(const PtyClient& client) {
  if (&client == holder_.get() && shell_ && has_room()) shell_->room_changed();
}

net::awaitable<void> PtySession::input(std::string bytes) {
  if (const auto shell = shell_) co_await shell->input(std::move(bytes));
}

void PtySession::end_input() {
  if (shell_) shell_->end_input();
}

std::uint64_t PtySession::input_offset() const { return shell_ ? shell_->input_offset() : 0; }

void PtySession::signal(int number) {
  if (shell_) shell_->signal(number);
}

void PtySession::resize(int columns, int rows) {
  if (shell_) shell_->resize(columns, rows);
}

net::awaitable<void> PtySession::remove() {
  const auto self = shared_from_this();
  deleted_ = true;
  if (const auto shell = shell_) {
    shell->room_changed();   // no slow client holds it back any more
    co_await shell->kill();  // clients then see its end
  } else {
    end_clients({error_text("SESSION_GONE", "the session was deleted"), 1000, "session deleted"});
  }
}

net::awaitable<void> PtySession::ended() {
  if (const auto shell = shell_) co_await shell->ended();
}

void PtySession::on_output(PtyShell&, char tag, std::string_view bytes) {
  const std::uint64_t offset = replay_.end();
  replay_.append(bytes);
  if (!holder_ && viewers_.empty()) return;
  const auto frame_with = [bytes](std::string head) { return std::make_shared<const std::string>(head.append(bytes)); };
  const PtyClient::Frame frame = frame_with(std::string(1, tag));
  PtyClient::Frame with_offset;  // made for the first client that wants it
  if (holder_) holder_->push(frame, bytes.size());
  for (const auto& viewer : viewers_) {
    const bool offsets = viewer->access() == PtyClient::Access::View;
    if (offsets && !with_offset) with_offset = frame_with(replay_head(offset));
    viewer->push(offsets ? with_offset : frame, bytes.size());
    if (viewer->queued() > kViewerQueue) viewer->fall_behind();
  }
}

bool PtySession::has_room() const { return deleted_ || !holder_ || holder_->queued() < kHolderQueue; }

void PtySession::on_input_taken(PtyShell&, std::uint64_t offset) {
  if (holder_ && holder_->input_acks()) holder_->push_text(input_text(offset, false));
}

void PtySession::on_input_failed(PtyShell& shell, const Error& error) {
  if (!holder_) return;
  // A client that counts its input is told that the reader has gone, and stays for the output.
  if (holder_->input_acks()) return holder_->push_text(input_text(shell.input_offset(), true));
  holder_->finish({error_text("STDIN_WRITE_FAILED", error.message), 1011, "stdin write failed"});
}

void PtySession::on_end(PtyShell&, sys::ExitStatus status, const std::optional<EndReason>& reason) {
  shell_.reset();
  end_clients({exit_text(status.signal != 0 ? -1 : status.code, status.signal, reason), 1000, "process exited"});
}

void PtySession::end_clients(const PtyClient::End& end) {
  if (const auto holder = std::exchange(holder_, nullptr)) holder->finish(end);
  for (const auto& viewer : std::exchange(viewers_, {})) viewer->finish(end);
}

}  // namespace osb::execd
