#include "cli/terminal/typed_input.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace osb::cli {
namespace {

constexpr std::size_t kFull = 256 * 1024;
constexpr std::size_t kPiece = 16 * 1024;

}  // namespace

TypedInput::TypedInput() : room_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { run(); }) {}

TypedInput::~TypedInput() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TypedInput::connect(opensandbox::PtyConnection* connection) {
  std::unique_lock lock(mutex_);
  connection_ = nullptr;
  changed_.wait(lock, [this] { return !busy_; });
  connection_ = connection;
  broken_ = false;
  resized_ = columns_ > 0;  // a new connection is told the size again
  changed_.notify_all();
}

void TypedInput::send(std::string bytes) {
  const std::lock_guard lock(mutex_);
  pending_ += bytes;
  changed_.notify_all();
}

void TypedInput::resize(int columns, int rows) {
  const std::lock_guard lock(mutex_);
  columns_ = columns;
  rows_ = rows;
  resized_ = true;
  changed_.notify_all();
}

bool TypedInput::full() const {
  const std::lock_guard lock(mutex_);
  return pending_.size() >= kFull;
}

void TypedInput::clear_room() {
  std::uint64_t ignored = 0;
  (void)!::read(room_.get(), &ignored, sizeof ignored);
}

void TypedInput::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(
        lock, [this] { return ending_ || (connection_ != nullptr && !broken_ && (resized_ || !pending_.empty())); });
    if (ending_) return;
    opensandbox::PtyConnection& connection = *connection_;
    busy_ = true;
    bool ok = true;
    if (std::exchange(resized_, false)) {
      const int columns = columns_, rows = rows_;
      lock.unlock();
      ok = connection.resize(columns, rows).has_value();
      lock.lock();
    } else {
      const bool was_full = pending_.size() >= kFull;
      const std::string piece = pending_.substr(0, kPiece);
      pending_.erase(0, piece.size());
      if (const std::uint64_t one = 1; was_full && pending_.size() < kFull)
        (void)!::write(room_.get(), &one, sizeof one);
      lock.unlock();
      ok = connection.write(piece).has_value();
      lock.lock();
    }
    if (!ok) broken_ = true;  // the reader finds out why, and connects again
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace osb::cli
