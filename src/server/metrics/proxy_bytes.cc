#include <memory>

#include "server/metrics/metrics.h"

namespace osb::server {
namespace {

class CountingBody final : public http::BodySource {
 public:
  CountingBody(std::shared_ptr<http::BodySource> inner, Metrics& metrics)
      : inner_(std::move(inner)), metrics_(metrics) {}

  net::awaitable<Result<std::string_view>> read() override {
    auto piece = co_await inner_->read();
    if (piece) metrics_.add_proxy_received(piece->size());
    co_return piece;
  }
  std::optional<std::string> take_whole(std::size_t limit) override {
    auto whole = inner_->take_whole(limit);
    if (whole) metrics_.add_proxy_received(whole->size());
    return whole;
  }
  bool ready() const override { return inner_->ready(); }
  std::optional<std::uint64_t> length() const override { return inner_->length(); }

 private:
  std::shared_ptr<http::BodySource> inner_;
  Metrics& metrics_;
};

// The client's side of an upgraded connection.
class CountingTransport final : public http::Transport {
 public:
  CountingTransport(http::Transport& inner, Metrics& metrics) : inner_(inner), metrics_(metrics) {}

  Io try_read(std::span<char> into) override {
    const Io io = inner_.try_read(into);
    if (io.kind == Io::Kind::Done) metrics_.add_proxy_received(io.bytes);
    return io;
  }
  Io try_write(std::span<const iovec> pieces) override {
    const Io io = inner_.try_write(pieces);
    if (io.kind == Io::Kind::Done) metrics_.add_proxy_sent(io.bytes);
    return io;
  }
  std::optional<Io> try_send_file(int file, std::uint64_t& offset, std::size_t count) override {
    const auto io = inner_.try_send_file(file, offset, count);
    if (io && io->kind == Io::Kind::Done) metrics_.add_proxy_sent(io->bytes);
    return io;
  }
  void shutdown_write() override { inner_.shutdown_write(); }
  void close() override { inner_.close(); }
  net::awaitable<Result<void>> wait(Wait what) override { return inner_.wait(what); }
  void set_deadline(std::optional<std::chrono::steady_clock::time_point> when) override { inner_.set_deadline(when); }
  void on_hangup(std::move_only_function<void()> then) override { inner_.on_hangup(std::move(then)); }
  std::string peer() const override { return inner_.peer(); }
  int native_fd() const override { return inner_.native_fd(); }
  net::any_io_executor executor() override { return inner_.executor(); }

 private:
  http::Transport& inner_;
  Metrics& metrics_;
};

http::UpgradeHandler counted(http::UpgradeHandler inner, Metrics& metrics) {
  return [inner = std::move(inner), &metrics](http::Transport& transport,
                                              std::string buffered) mutable -> net::awaitable<void> {
    CountingTransport counting(transport, metrics);
    metrics.add_proxy_received(buffered.size());
    co_await inner(counting, std::move(buffered));
  };
}

}  // namespace

http::Handler with_proxy_bytes(http::Handler inner, Metrics& metrics, bool all) {
  const auto held = std::make_shared<const http::Handler>(std::move(inner));
  return [held, &metrics, all](http::Request& request) -> net::awaitable<http::Response> {
    // No other route has this in its path, and what no route takes has no body that is read.
    if (!all && request.path().find("/proxy/") == std::string_view::npos) return (*held)(request);
    if (request.body->length() != 0u) request.body = std::make_shared<CountingBody>(request.body, metrics);
    return [](const http::Handler& next, http::Request& asked, Metrics& count) -> net::awaitable<http::Response> {
      http::Response response = co_await next(asked);
      if (auto* upgrade = std::get_if<http::UpgradeHandler>(&response.body)) {
        response.body = counted(std::move(*upgrade), count);
      }
      co_return response;
    }(*held, request, metrics);
  };
}

}  // namespace osb::server
