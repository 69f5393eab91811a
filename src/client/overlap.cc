#include "client/overlap.h"

#include <algorithm>
#include <utility>

namespace opensandbox {
namespace {

constexpr std::size_t kBlock = 1024 * 1024;

}  // namespace

async::ByteSink WriteBehind::sink() {
  return [this](std::string_view piece) { return put(piece); };
}

async::Task<void> WriteBehind::put(std::string_view piece) {
  while (!piece.empty()) {
    if (collected_.size() == kBlock && !co_await changed_.wait_until([this] { return !busy_; })) {
      co_return cancelled("the transfer was cancelled");
    }
    if (failed_) co_return Failure(*failed_);
    if (collected_.size() == kBlock) hand_over();
    collected_.reserve(kBlock);
    const std::size_t room = std::min(kBlock - collected_.size(), piece.size());
    collected_.append(piece.substr(0, room));
    piece.remove_prefix(room);
    if (!busy_) hand_over();
  }
  co_return Result<void>();
}

void WriteBehind::hand_over() {
  std::swap(collected_, given_);
  collected_.clear();
  busy_ = true;
  net::co_spawn(executor_, caller_.run<void>([this] { return sink_(given_); }),
                [this](std::exception_ptr broken, const Result<void>& taken) {
                  busy_ = false;
                  if (broken) failed_ = cancelled("the transfer broke").error();
                  if (!taken) failed_ = taken.error();
                  changed_.notify_all();
                });
}

async::Task<void> WriteBehind::finish() {
  co_await changed_.wait_until([this] { return !busy_; });
  if (!failed_ && !collected_.empty()) {
    hand_over();
    co_await changed_.wait_until([this] { return !busy_; });
  }
  if (failed_) co_return Failure(*failed_);
  co_return Result<void>();
}

async::ByteSource ReadAhead::source() {
  return [this] { return next(); };
}

async::Task<std::string_view> ReadAhead::next() {
  if (!busy_ && !piece_) ask();
  if (!co_await changed_.wait_until([this] { return piece_.has_value(); })) {
    co_return cancelled("the transfer was cancelled");
  }
  auto piece = *std::exchange(piece_, std::nullopt);
  if (piece && !piece->empty()) ask();
  co_return piece;
}

void ReadAhead::ask() {
  busy_ = true;
  net::co_spawn(executor_, caller_.run<std::string_view>([this] { return source_(); }),
                [this](std::exception_ptr broken, Result<std::string_view> piece) {
                  busy_ = false;
                  if (broken) piece = cancelled("the transfer broke");
                  piece_ = std::move(piece);
                  changed_.notify_all();
                });
}

net::awaitable<void> ReadAhead::finish() {
  co_await changed_.wait_until([this] { return !busy_; });
}

}  // namespace opensandbox
