#include "execd/file/listing/listing_response.h"

#include <boost/asio/this_coro.hpp>

namespace osb::execd {
namespace {

constexpr std::size_t kCommit = 1024 * 1024;

// The array's brackets: each of its elements comes with a comma before it.
class Brackets {
 public:
  void open(std::string& piece) {
    if (opened_ || piece.empty()) return;
    piece.front() = '[';
    opened_ = true;
  }
  std::string_view close() const { return opened_ ? "]" : "[]"; }

 private:
  bool opened_ = false;
};

struct Stream {
  Stream(net::any_io_executor executor, FilePool pool, std::unique_ptr<Listing> opened)
      : listing(std::move(opened)),
        rest(executor, pool, [this](std::size_t worker, std::string& out) { return listing->make(worker, out); }, 1) {}

  std::unique_ptr<Listing> listing;
  OrderedPieces rest;  // behind the first
  Brackets brackets;
  std::string begin;
};

net::awaitable<Result<void>> send(std::unique_ptr<Stream> stream, http::BodyWriter& writer) {
  if (auto sent = co_await writer.write(std::string_view(stream->begin)); !sent) co_return Failure(sent.error());
  stream->begin = {};
  const auto ended = co_await stream->rest.run([&](std::string& piece) -> net::awaitable<Result<bool>> {
    stream->brackets.open(piece);
    auto sent = co_await writer.write(std::string_view(piece));
    if (!sent) co_return Failure(sent.error());
    co_return true;
  });
  if (!ended) co_return Failure(ended.error());
  co_return co_await writer.write(stream->brackets.close());
}

}  // namespace

net::awaitable<Result<http::Response>> listing_response(FilePool pool,
                                                        std::function<Result<std::unique_ptr<Listing>>()> open) {
  std::string begin;
  std::unique_ptr<Listing> listing;
  // Most listings are short: one visit to the pool is all they take.
  const auto first = co_await pool.run([&]() -> Result<OrderedPieces::Made> {
    auto opened = open();
    if (!opened) return Failure(opened.error());
    listing = std::move(*opened);
    return listing->make(0, begin);
  });
  if (!first) co_return Failure(first.error());
  http::Response response;
  response.headers = {{"Content-Type", "application/json"}};
  auto stream = std::make_unique<Stream>(co_await net::this_coro::executor, pool, std::move(listing));
  stream->brackets.open(begin);
  bool more = first->more;
  if (more) {
    const auto going_on = co_await stream->rest.run([&](std::string& piece) -> net::awaitable<Result<bool>> {
      stream->brackets.open(piece);
      begin += piece;
      co_return begin.size() < kCommit;
    });
    if (!going_on) co_return Failure(going_on.error());
    more = *going_on;
  }
  if (!more) {
    begin += stream->brackets.close();
    response.body = std::move(begin);
    co_return response;
  }
  stream->begin = std::move(begin);
  response.body =
      http::StreamBody{.produce = [stream = std::move(stream)](
                                      http::BodyWriter& writer) mutable { return send(std::move(stream), writer); },
                       .length = std::nullopt};
  co_return response;
}

}  // namespace osb::execd
