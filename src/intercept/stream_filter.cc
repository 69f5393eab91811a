#include "intercept/stream_filter.h"

#include <utility>

namespace osb::intercept {
namespace {

class FilteredBody final : public http::BodySource {
 public:
  FilteredBody(std::shared_ptr<http::BodySource> body, std::unique_ptr<StreamFilter> filter)
      : body_(std::move(body)), filter_(std::move(filter)) {}

  net::awaitable<Result<std::string_view>> read() override {
    out_.clear();
    while (out_.empty() && !ended_) {
      auto piece = co_await body_->read();
      if (!piece) co_return Failure(piece.error());
      ended_ = piece->empty();
      if (ended_) {
        filter_->finish(out_);
      } else {
        filter_->write(*piece, out_);
      }
    }
    co_return std::string_view(out_);
  }
  std::optional<std::uint64_t> length() const override { return std::nullopt; }

 private:
  std::shared_ptr<http::BodySource> body_;
  std::unique_ptr<StreamFilter> filter_;
  std::string out_;
  bool ended_ = false;
};

class FilteringWriter final : public http::BodyWriter {
 public:
  FilteringWriter(http::BodyWriter& to, StreamFilter& filter) : to_(to), filter_(filter) {}

  net::awaitable<Result<void>> write(std::span<const std::string_view> pieces) override {
    out_.clear();
    for (const std::string_view piece : pieces) filter_.write(piece, out_);
    return send();
  }
  net::awaitable<Result<void>> flush() override { return to_.flush(); }
  net::awaitable<void> peer_closed() override { return to_.peer_closed(); }

  net::awaitable<Result<void>> finish() {
    out_.clear();
    filter_.finish(out_);
    return send();
  }

 private:
  net::awaitable<Result<void>> send() { co_return co_await to_.write(std::string_view(out_)); }

  http::BodyWriter& to_;
  StreamFilter& filter_;
  std::string out_;
};

net::awaitable<Result<void>> produce_filtered(http::StreamBody inner, std::unique_ptr<StreamFilter> filter,
                                              http::BodyWriter& to) {
  FilteringWriter writer(to, *filter);
  auto produced = co_await inner.produce(writer);
  if (!produced) co_return produced;
  co_return co_await writer.finish();
}

}  // namespace

std::shared_ptr<http::BodySource> filtered(std::shared_ptr<http::BodySource> body,
                                           std::unique_ptr<StreamFilter> filter) {
  return std::make_shared<FilteredBody>(std::move(body), std::move(filter));
}

void filter_body(http::Response& response, std::unique_ptr<StreamFilter> filter) {
  if (auto* text = std::get_if<std::string>(&response.body)) {
    std::string out;
    filter->write(*text, out);
    filter->finish(out);
    *text = std::move(out);
  } else if (auto* stream = std::get_if<http::StreamBody>(&response.body)) {
    response.body =
        http::StreamBody{.produce =
                             [inner = std::move(*stream), filter = std::move(filter)](http::BodyWriter& to) mutable {
                               return produce_filtered(std::move(inner), std::move(filter), to);
                             },
                         .length = std::nullopt};
  }
}

}  // namespace osb::intercept
