#include "http/prefixed_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace osb::http {
namespace {

class PrefixedTransport final : public Transport {
 public:
  PrefixedTransport(std::string first, std::unique_ptr<Transport> inner)
      : first_(std::move(first)), inner_(std::move(inner)) {}

  Io try_read(std::span<char> into) override {
    if (!pending()) return inner_->try_read(into);
    const std::size_t count = std::min(into.size(), first_.size() - used_);
    std::memcpy(into.data(), first_.data() + used_, count);
    used_ += count;
    if (!pending()) first_ = {};
    return {.kind = Io::Kind::Done, .bytes = count};
  }
  net::awaitable<Result<void>> wait(Wait what) override {
    if (what == Wait::Readable && pending() && inner_->native_fd() >= 0) co_return Result<void>();
    co_return co_await inner_->wait(what);
  }

  Io try_write(std::span<const iovec> pieces) override { return inner_->try_write(pieces); }
  std::optional<Io> try_send_file(int file, std::uint64_t& offset, std::size_t count) override {
    return inner_->try_send_file(file, offset, count);
  }
  void shutdown_write() override { inner_->shutdown_write(); }
  void close() override { inner_->close(); }
  void set_deadline(std::optional<std::chrono::steady_clock::time_point> when) override { inner_->set_deadline(when); }
  void on_hangup(std::move_only_function<void()> then) override { inner_->on_hangup(std::move(then)); }
  std::string peer() const override { return inner_->peer(); }
  int native_fd() const override { return inner_->native_fd(); }
  net::any_io_executor executor() override { return inner_->executor(); }

 private:
  bool pending() const { return used_ < first_.size(); }

  std::string first_;
  std::size_t used_ = 0;
  std::unique_ptr<Transport> inner_;
};

}  // namespace

std::unique_ptr<Transport> make_prefixed_transport(std::string first, std::unique_ptr<Transport> inner) {
  return std::make_unique<PrefixedTransport>(std::move(first), std::move(inner));
}

}  // namespace osb::http
