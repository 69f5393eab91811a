#include "cli/terminal/piped_input.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <utility>

namespace osb::cli {
namespace {

// The number of bytes that execd holds for a process that does not read, before it stops reading from the connection.
constexpr std::size_t kWindow = 1024 * 1024;
constexpr std::size_t kPiece = 128 * 1024;

bool is_dev_null(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
}

}  // namespace

bool passes_input(bool asked) {
  if (::fcntl(STDIN_FILENO, F_GETFD) < 0) return false;
  return asked || (::isatty(STDIN_FILENO) == 0 && !is_dev_null(STDIN_FILENO));
}

PipedInput::PipedInput() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { run(); }) {}

PipedInput::~PipedInput() {
  close();
  thread_.join();
}

void PipedInput::connect(opensandbox::PtyConnection* connection, std::uint64_t accepted) {
  std::unique_lock lock(mutex_);
  connection_ = nullptr;
  changed_.wait(lock, [this] { return !busy_; });
  if (connection == nullptr) return;
  connection_ = connection;
  broken_ = end_sent_ = false;
  forget(accepted);
  next_ = 0;
  changed_.notify_all();
}

void PipedInput::taken(std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  forget(offset);
  changed_.notify_all();
}

void PipedInput::forget(std::uint64_t offset) {
  while (!pieces_.empty() && begin_ < offset) {
    std::string& first = pieces_.front();
    const std::uint64_t gone = std::min<std::uint64_t>(offset - begin_, first.size());
    begin_ += gone;
    bytes_ -= gone;
    if (gone < first.size()) {
      first.erase(0, gone);
    } else {
      pieces_.pop_front();
      if (next_ > 0) --next_;
    }
  }
}

void PipedInput::close() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  changed_.notify_all();
}

bool PipedInput::may_read() const { return !ended_ && bytes_ + kPiece <= kWindow; }

void PipedInput::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] {
      const bool to_send = next_ < pieces_.size() || (ended_ && !end_sent_);
      return stopped_ || (connection_ != nullptr && !broken_ && (to_send || may_read()));
    });
    if (stopped_) break;
    if (next_ < pieces_.size() || ended_) {
      send_some(lock);
    } else {
      read_some(lock);
    }
  }
  lock.unlock();
  // Not just closed: the next file that is opened must not become standard input.
  const UniqueFd empty(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (empty.get() >= 0) (void)::dup2(empty.get(), STDIN_FILENO);
}

void PipedInput::send_some(std::unique_lock<std::mutex>& lock) {
  opensandbox::PtyConnection& connection = *connection_;
  busy_ = true;
  bool ok = true;
  if (next_ < pieces_.size()) {
    const std::string piece = pieces_[next_];  // it may be forgotten before the call returns
    ++next_;
    lock.unlock();
    ok = connection.write(piece).has_value();
    lock.lock();
  } else {
    end_sent_ = true;
    lock.unlock();
    ok = connection.end_input().has_value();
    lock.lock();
  }
  if (!ok) broken_ = true;  // the reader finds out why, and connects again
  busy_ = false;
  changed_.notify_all();
}

void PipedInput::read_some(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::string piece;
  bool ended = false;
  std::array<pollfd, 2> waits{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
  if (::poll(waits.data(), waits.size(), -1) > 0 && waits[1].revents == 0) {
    piece.resize(kPiece);
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    ended = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
    piece.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  }
  lock.lock();
  ended_ = ended;
  if (piece.empty()) return;
  bytes_ += piece.size();
  pieces_.push_back(std::move(piece));
}

}  // namespace osb::cli
