#include <deque>
#include <opensandbox/pty.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "async/timer.h"
#include "base/unique_fd.h"
#include "client/sync.h"

namespace opensandbox {
namespace {

constexpr std::size_t kQueuedBytes = 1024 * 1024;

// Frames on their way from the loop to the reading thread. When many wait, the sandbox is held back.
struct FrameQueue {
  explicit FrameQueue(net::any_io_executor executor)
      : room(std::move(executor)), ready(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<PtyFrame> frames;
  std::size_t bytes = 0;
  std::uint64_t offset = 0;  // behind the last frame that was read
  std::optional<Error> end;  // set when no frame comes any more
  bool pumping = true;       // the loop's side still uses this
  bool detached = false;
  osb::Notifier room;  // on the loop only
  const osb::UniqueFd ready;

  void wake() {
    const std::uint64_t one = 1;
    (void)!::write(ready.get(), &one, sizeof(one));
    changed.notify_all();
  }
};

net::awaitable<void> pump(std::shared_ptr<FrameQueue> queue, async::PtyConnection connection) {
  for (;;) {
    auto frame = co_await connection.read();
    {
      const std::scoped_lock lock(queue->mutex);
      if (frame) {
        queue->bytes += frame->data.size();
        queue->frames.push_back(std::move(*frame));
      } else {
        queue->end = std::move(frame.error());
      }
      queue->wake();
      if (queue->end) break;
    }
    const auto has_room = [&] {
      const std::scoped_lock lock(queue->mutex);
      return queue->bytes < kQueuedBytes || queue->detached;
    };
    if (!co_await queue->room.wait_until(has_room)) break;
  }
}

}  // namespace

struct PtyConnection::Impl {
  Impl(Client owner, async::PtyConnection open, std::uint64_t since)
      : client(std::move(owner)),
        connection(std::move(open)),
        queue(std::make_shared<FrameQueue>(client.core()->io.get_executor())) {
    queue->offset = since;
    net::co_spawn(client.core()->io, pump(queue, connection), [queue = queue](std::exception_ptr) {
      const std::scoped_lock lock(queue->mutex);
      if (!queue->end) queue->end = network_error("the terminal's connection broke").error();
      queue->pumping = false;
      queue->wake();
    });
  }
  ~Impl() {
    detach();
    std::unique_lock lock(queue->mutex);
    queue->changed.wait(lock, [&] { return !queue->pumping; });
  }

  void detach() {
    {
      const std::scoped_lock lock(queue->mutex);
      if (queue->detached) return;
      queue->detached = true;
      if (!queue->pumping) return;
    }
    make_room();
    (void)client.core()->run_task(close());
  }

  async::Task<void> close() {
    co_await connection.detach();
    co_return Result<void>();
  }

  void make_room() {
    net::post(client.core()->io, [queue = queue] { queue->room.notify_all(); });
  }

  Client client;
  async::PtyConnection connection;
  std::shared_ptr<FrameQueue> queue;
};

PtyConnection::PtyConnection(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
PtyConnection::PtyConnection(PtyConnection&&) noexcept = default;
PtyConnection& PtyConnection::operator=(PtyConnection&&) noexcept = default;
PtyConnection::~PtyConnection() = default;

Result<std::optional<PtyFrame>> PtyConnection::read(std::optional<std::chrono::milliseconds> timeout) {
  FrameQueue& queue = *impl_->queue;
  std::unique_lock lock(queue.mutex);
  const auto something = [&] { return !queue.frames.empty() || queue.end; };
  if (!timeout) {
    queue.changed.wait(lock, something);
  } else if (!queue.changed.wait_for(lock, *timeout, something)) {
    return std::optional<PtyFrame>();
  }
  if (queue.frames.empty()) return Failure(*queue.end);
  PtyFrame frame = std::move(queue.frames.front());
  queue.frames.pop_front();
  const bool was_full = queue.bytes >= kQueuedBytes;
  queue.bytes -= frame.data.size();
  if (!frame.data.empty() && frame.type != PtyFrame::Type::Error) queue.offset = frame.offset + frame.data.size();
  if (queue.frames.empty() && !queue.end) {
    std::uint64_t count = 0;
    (void)!::read(queue.ready.get(), &count, sizeof(count));
  }
  const bool has_room = was_full && queue.bytes < kQueuedBytes;
  lock.unlock();
  if (has_room) impl_->make_room();
  return std::optional(std::move(frame));
}

int PtyConnection::poll_fd() const { return impl_->queue->ready.get(); }

Result<void> PtyConnection::write(std::string_view input) {
  return impl_->client.core()->run_task(impl_->connection.write(std::string(input)));
}
Result<void> PtyConnection::end_input() { return impl_->client.core()->run_task(impl_->connection.end_input()); }
Result<void> PtyConnection::resize(int columns, int rows) {
  return impl_->client.core()->run_task(impl_->connection.resize(columns, rows));
}
Result<void> PtyConnection::signal(std::string_view name) {
  return impl_->client.core()->run_task(impl_->connection.signal(std::string(name)));
}
Result<void> PtyConnection::ping() { return impl_->client.core()->run_task(impl_->connection.ping()); }

std::uint64_t PtyConnection::offset() const {
  const std::scoped_lock lock(impl_->queue->mutex);
  return impl_->queue->offset;
}
void PtyConnection::detach() { impl_->detach(); }

Result<std::string> Ptys::create(const PtyCreateOptions& options) const {
  return impl_->client.core()->run_task(impl_->sandbox.ptys().create(options));
}
Result<PtyStatus> Ptys::status(const std::string& id) const {
  return impl_->client.core()->run_task(impl_->sandbox.ptys().status(id));
}
Result<void> Ptys::remove(const std::string& id) const {
  return impl_->client.core()->run_task(impl_->sandbox.ptys().remove(id));
}
Result<PtyConnection> Ptys::attach(const std::string& id, const PtyAttachOptions& options) const {
  auto connection = impl_->client.core()->run_task(impl_->sandbox.ptys().attach(id, options));
  if (!connection) return Failure(std::move(connection.error()));
  return PtyConnection(std::make_shared<PtyConnection::Impl>(impl_->client, std::move(*connection), options.since));
}

}  // namespace opensandbox
