#include "mcp/stdio.h"

#include <array>
#include <cerrno>
#include <deque>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "async/race.h"
#include "base/line_splitter.h"
#include "base/log.h"
#include "sys/syscall.h"

namespace osb::mcp {
namespace {

using namespace race;

// A client that does not read its answers is not read from either, beyond this much.
constexpr std::size_t kMostUnsent = 16 << 20;

// A descriptor on the loop, or one that cannot wait (a file, /dev/null) and therefore never has to. The flags belong to
// the program that started us and are restored.
class Channel {
 public:
  Channel(net::any_io_executor loop, UniqueFd fd) : flags_(::fcntl(fd.get(), F_GETFL)) {
    const int number = fd.get();
    UniqueFd spare(::fcntl(number, F_DUPFD_CLOEXEC, 0));
    if (auto opened = Descriptor::open(loop, std::move(fd))) {
      waiting_.emplace(std::move(*opened));
    } else {
      file_ = std::move(spare);
    }
  }
  ~Channel() {
    if (waiting_ && flags_ >= 0) ::fcntl(waiting_->fd(), F_SETFL, flags_);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  net::awaitable<Result<std::size_t>> read_some(std::span<char> buffer) {
    if (waiting_) co_return co_await waiting_->read_some(buffer);
    for (;;) {
      const ssize_t got = ::read(file_.get(), buffer.data(), buffer.size());
      if (got >= 0) co_return static_cast<std::size_t>(got);
      if (errno != EINTR) co_return sys::from_errno("read", errno);
    }
  }

  net::awaitable<Result<void>> write_all(std::string_view data) {
    if (waiting_) co_return co_await waiting_->write_all(data);
    while (!data.empty()) {
      const ssize_t put = ::write(file_.get(), data.data(), data.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) co_return sys::from_errno("write", errno);
      data.remove_prefix(static_cast<std::size_t>(put));
    }
    co_return Result<void>();
  }

 private:
  int flags_;
  std::optional<Descriptor> waiting_;
  UniqueFd file_;
};

}  // namespace

// The messages to send, in order; written by one coroutine.
class StdioServer::Output final : public Outlet {
 public:
  explicit Output(net::any_io_executor loop) : changed_(loop) {}

  void send(std::string message) override {
    if (broken_) return;
    message += '\n';
    bytes_ += message.size();
    queue_.push_back(std::move(message));
    changed_.notify_all();
  }

  // Until the reader has gone, or end() was called and everything is written.
  net::awaitable<void> write_to(Channel& channel) {
    while (co_await changed_.wait_until([this] { return !queue_.empty() || ended_; })) {
      if (queue_.empty()) co_return;
      const std::string message = std::move(queue_.front());
      queue_.pop_front();
      const auto written = co_await channel.write_all(message);
      bytes_ -= message.size();
      changed_.notify_all();
      if (!written) break;
    }
    broken_ = true;
    queue_.clear();
    bytes_ = 0;
    changed_.notify_all();
  }

  net::awaitable<bool> room() {
    return changed_.wait_until([this] { return bytes_ < kMostUnsent || broken_; });
  }
  void end() {
    ended_ = true;
    changed_.notify_all();
  }

 private:
  Notifier changed_;
  std::deque<std::string> queue_;
  std::size_t bytes_ = 0;
  bool ended_ = false;
  bool broken_ = false;
};

StdioServer::StdioServer(net::any_io_executor loop, sdk::Client client, const std::vector<Tool>& tools,
                         SessionOptions options)
    : loop_(loop), client_(std::move(client)), tools_(tools), options_(options), stopping_(loop) {}

StdioServer::~StdioServer() = default;

void StdioServer::stop() { stopping_.set(); }

net::awaitable<void> StdioServer::run(UniqueFd input, UniqueFd output) {
  Channel in(loop_, std::move(input));
  Channel out(loop_, std::move(output));
  const auto outlet = std::make_shared<Output>(loop_);
  const auto session = std::make_shared<ClientSession>(loop_, client_, tools_, options_, outlet);

  const auto read = [&]() -> net::awaitable<void> {
    LineSplitter lines;
    const auto refuse = [&] {
      outlet->send(encode_error(
          nullptr, {rpc::kInvalidRequest,
                    "a message must not be longer than " + std::to_string(kMaxMessageBytes) + " bytes", nullptr}));
    };
    std::vector<char> buffer(64 * 1024);
    while (co_await outlet->room()) {
      const auto got = co_await in.read_some(buffer);
      if (!got || *got == 0) co_return;
      lines.feed({buffer.data(), *got}, [&](std::string_view line) {
        if (line.size() > kMaxMessageBytes) return refuse();
        if (!line.empty()) session->receive(decode_payload(line), outlet);
      });
      if (lines.pending() <= kMaxMessageBytes) continue;
      lines.skip_line();
      refuse();
    }
  };
  TaskGroup writer(loop_);
  Event gone(loop_);
  const auto write = [&]() -> net::awaitable<void> {
    co_await outlet->write_to(out);
    gone.set();
  };
  writer.spawn("write answers", write());
  co_await (read() || gone.wait() || stopping_.wait());
  log_debug("the client has gone");
  co_await session->close();
  // A client that closed only its input still gets what was answered; one that does not read is not waited for.
  outlet->end();
  co_await (gone.wait() || sleep_for(std::chrono::seconds(1)));
  co_await writer.close();
}

}  // namespace osb::mcp
