#include "execd/file/content/stream.h"

#include <memory>
#include <utility>

#include "async/race.h"

namespace osb::execd {
namespace {

constexpr std::size_t kPiece = 256 * 1024;

struct Stream {
  Producer producer;
  std::string current;
  std::string next;
  bool more = true;
};

net::awaitable<Result<bool>> make(FilePool pool, Stream& stream, std::string& out, std::size_t limit) {
  out.clear();
  return pool.run([&stream, &out, limit] { return stream.producer(out, limit); });
}

net::awaitable<Result<void>> send(FilePool pool, std::unique_ptr<Stream> stream, http::BodyWriter& writer) {
  using namespace race;
  while (stream->more) {
    auto [more, sent] =
        co_await (make(pool, *stream, stream->next, kPiece) && writer.write(std::string_view(stream->current)));
    if (!sent) co_return Failure(sent.error());
    if (!more) co_return Failure(more.error());
    stream->more = *more;
    std::swap(stream->current, stream->next);
  }
  co_return co_await writer.write(std::string_view(stream->current));
}

}  // namespace

net::awaitable<Result<http::Response>> produce_response(FilePool pool, http::Headers headers, Producer producer,
                                                        std::size_t commit) {
  auto stream = std::make_unique<Stream>();
  stream->producer = std::move(producer);
  auto more = co_await make(pool, *stream, stream->current, commit);
  if (!more) co_return Failure(more.error());
  http::Response response;
  response.headers = std::move(headers);
  if (!*more) {
    response.body = std::move(stream->current);
    co_return response;
  }
  response.body = http::StreamBody{
      .produce = [pool, stream = std::move(stream)](
                     http::BodyWriter& writer) mutable { return send(pool, std::move(stream), writer); },
      .length = std::nullopt};
  co_return response;
}

}  // namespace osb::execd
