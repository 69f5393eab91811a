#include "execd/file/content/body_pump.h"

#include <utility>

#include "async/race.h"

namespace osb::execd {
namespace {

constexpr std::size_t kBlock = 1024 * 1024;

// Appends pieces until there is a block; false at the end of the body.
net::awaitable<Result<bool>> collect(BodyPump& pump, std::string& block) {
  block.clear();
  while (block.size() < kBlock) {
    auto piece = co_await pump.read();
    if (!piece) co_return Failure(piece.error());
    if (piece->empty()) co_return false;
    block += *piece;
  }
  co_return true;
}

}  // namespace

net::awaitable<Result<void>> BodyPump::run() {
  using namespace race;
  std::string current, next;
  auto more = co_await collect(*this, current);
  while (more && *more) {
    auto [written, collected] = co_await (pool.run([&] { return write(current, false); }) && collect(*this, next));
    if (!written) co_return written;
    more = std::move(collected);
    std::swap(current, next);
  }
  if (!more) co_return Failure(more.error());
  co_return co_await pool.run([&] { return write(current, true); });
}

}  // namespace osb::execd
