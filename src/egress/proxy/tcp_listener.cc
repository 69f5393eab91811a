#include "egress/proxy/tcp_listener.h"

#include "async/race.h"
#include "async/timer.h"
#include "egress/dns/reader.h"
#include "http/listener.h"
#include "http/transport.h"

namespace osb::egress {
namespace {

constexpr std::chrono::seconds kIdle{10};
constexpr std::size_t kMostQuestions = 1024;     // on one connection
constexpr std::size_t kMostUnsent = 256 * 1024;  // an asker that does not read its answers is closed
constexpr std::size_t kLongestReply = 65'535;
constexpr std::chrono::milliseconds kRetryAccept{100};

// Answers wait here for the writer; questions in flight hold it.
class Replies final : public ReplyChannel {
 public:
  explicit Replies(net::any_io_executor executor) : changed_(std::move(executor)) {}

  void send(const SocketAddress&, std::string_view message) override {
    ++answered_;
    if (closed_) return;
    put_u16(bytes_, static_cast<std::uint16_t>(message.size()));
    bytes_ += message;
    if (bytes_.size() > kMostUnsent) closed_ = true;
    changed_.notify_all();
  }
  std::size_t limit(const Query&) const override { return kLongestReply; }

  void question_came() { ++asked_; }
  // An asker that has sent its last question still gets the answers that are on their way.
  net::awaitable<void> all_sent() {
    (void)co_await changed_.wait_until(
        [this] { return closed_ || (answered_ >= asked_ && bytes_.empty() && !writing_); });
  }

  // Until the connection ends.
  net::awaitable<void> write_to(http::Transport& transport) {
    for (;;) {
      if (!co_await changed_.wait_until([this] { return closed_ || !bytes_.empty(); }) || closed_) co_return;
      const std::string out = std::exchange(bytes_, {});
      writing_ = true;
      if (!co_await transport.write_all(out)) co_return;
      writing_ = false;
      changed_.notify_all();
    }
  }
  void close() {
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::string bytes_;
  std::size_t asked_ = 0, answered_ = 0;
  bool writing_ = false, closed_ = false;
  Notifier changed_;
};

net::awaitable<void> read_questions(http::Transport& transport, DnsProxy& proxy, SandboxPtr sandbox,
                                    std::shared_ptr<Replies> replies, SocketAddress from) {
  const ReplyPath reply{replies, from};
  std::string in;
  std::array<char, 4096> buffer;
  for (std::size_t questions = 0; questions < kMostQuestions && !sandbox->gone;) {
    transport.set_timeout(kIdle);
    const auto got = co_await transport.read_some(buffer);
    if (!got || *got == 0) co_return;
    in.append(buffer.data(), *got);
    std::size_t at = 0;
    while (in.size() - at >= 2) {
      const std::size_t size = WireReader(std::string_view(in).substr(at)).u16();
      if (in.size() - at < 2 + size) break;
      replies->question_came();
      proxy.handle(sandbox, std::string_view(in).substr(at + 2, size), reply);
      at += 2 + size;
      ++questions;
    }
    in.erase(0, at);
  }
}

}  // namespace

TcpListener::TcpListener(net::any_io_executor executor, DnsProxy& proxy, FindSandbox find)
    : executor_(executor), proxy_(proxy), find_(std::move(find)), tasks_(executor) {}

void TcpListener::listen(UniqueFd socket) { tasks_.spawn("accept DNS over TCP", accept(std::move(socket))); }

net::awaitable<void> TcpListener::close() { return tasks_.close(); }

net::awaitable<void> TcpListener::accept(UniqueFd socket) {
  http::Listener listener(executor_, std::move(socket));
  for (;;) {
    auto connection = co_await listener.accept();
    if (!connection && connection.error().code == Code::Unavailable) {
      if (!co_await sleep_for(kRetryAccept)) co_return;
      continue;
    }
    if (!connection) co_return;
    SocketAddress from;
    if (::getpeername(connection->get(), &from.any, &from.size) < 0) continue;
    SandboxPtr sandbox = find_(from.ip());
    if (!sandbox || open_ >= kMostConnections || sandbox->connections >= kMostPerSandbox) continue;
    ++open_;
    ++sandbox->connections;
    tasks_.spawn("DNS over TCP", serve(std::move(*connection), std::move(sandbox), from));
  }
}

net::awaitable<void> TcpListener::serve(UniqueFd socket, SandboxPtr sandbox, SocketAddress from) {
  using namespace race;
  const auto transport = http::make_plain_transport(executor_, std::move(socket));
  const auto replies = std::make_shared<Replies>(executor_);
  const auto read = [&]() -> net::awaitable<void> {
    co_await read_questions(*transport, proxy_, sandbox, replies, from);
    (void)co_await (replies->all_sent() || sleep_for(kIdle));
  };
  (void)co_await (read() || replies->write_to(*transport));
  replies->close();
  transport->close();
  --open_;
  --sandbox->connections;
}

}  // namespace osb::egress
