#include "intercept/h2_side.h"

#include <array>
#include <cstring>
#include <utility>

#include "async/race.h"
#include "http/linger.h"

namespace osb::intercept {
namespace {

using Io = http::Transport::Io;

constexpr std::size_t kRead = 32 * 1024;
constexpr std::size_t kBatch = 16 * 1024;  // one TLS record
constexpr std::size_t kKeep = 4 * 1024;    // memory of an idle connection
constexpr int kReadsInARow = 32;           // then other connections have their turn

// Between two waits nothing else runs, so all connections of a loop share it.
std::span<char> shared_buffer() {
  thread_local std::array<char, kRead> buffer;
  return buffer;
}

}  // namespace

H2Side::H2Side(std::unique_ptr<http::Transport> transport, H2Session::Role role, H2Events& events,
               const H2Limits& limits, std::function<void()> moved)
    : transport_(std::move(transport)),
      session_(role, events, limits),
      moved_(std::move(moved)),
      stuck_(transport_->executor()),
      secret_(role == H2Session::Role::Client) {}

H2Side::~H2Side() {
  if (secret_) ::explicit_bzero(out_.data(), out_.size());
}

net::awaitable<Result<void>> H2Side::run(std::chrono::milliseconds idle, std::function<bool()> is_idle) {
  using namespace race;
  idle_ = idle;
  is_idle_ = std::move(is_idle);
  moved_();
  co_await (read() || write());
  co_return outcome_;
}

net::awaitable<void> H2Side::read() {
  for (int reads = 0; !is_done() && !broken_; ++reads) {
    if (reads == kReadsInARow) {
      reads = 0;
      if (!co_await sleep_for({})) co_return;
    }
    const Io io = transport_->try_read(shared_buffer());
    if (io.kind == Io::Kind::Done) {
      outcome_ = session_.receive({shared_buffer().data(), io.bytes});
      moved_();
      if (!outcome_) co_return;
    } else if (io.kind == Io::Kind::Again) {
      reads = 0;
      transport_->set_timeout(idle_);
      const auto ready = co_await transport_->wait(io.wait_for);
      if (!ready && ready.error().code == Code::Timeout && !is_idle_()) continue;
      if (!ready) co_return;
    } else {
      if (io.kind == Io::Kind::Failed) outcome_ = http::Transport::failure("receive", io.error);
      co_return;
    }
  }
}

net::awaitable<void> H2Side::write() {
  while (co_await stuck_.wait()) {
    if (broken_ || !co_await transport_->wait(stuck_on_)) co_return;
    stuck_.clear();
    moved_();
    if (is_done()) co_return;
  }
}

bool H2Side::take_frames() {
  if (secret_) ::explicit_bzero(out_.data(), out_.size());
  out_.clear();
  sent_ = 0;
  if (auto taken = session_.send(out_, kBatch); !taken) {
    outcome_ = Failure(taken.error());
    broken_ = true;
    stuck_.set();  // write() ends
  }
  return !out_.empty() && !broken_;
}

bool H2Side::flush() {
  bool progress = false;
  while (!stuck_.is_set() && (sent_ < out_.size() || take_frames())) {
    const iovec piece{out_.data() + sent_, out_.size() - sent_};
    const Io io = transport_->try_write({&piece, 1});
    if (io.kind == Io::Kind::Done) {
      sent_ += io.bytes;
      progress = true;
      continue;
    }
    if (io.kind != Io::Kind::Again) {
      outcome_ = http::Transport::failure("send", io.kind == Io::Kind::Failed ? io.error : EPIPE);
      broken_ = true;
    }
    stuck_on_ = io.wait_for;
    stuck_.set();
  }
  if (out_.empty() && out_.capacity() > kKeep) out_ = {};
  return progress;
}

void H2Side::leave() {
  session_.go_away(H2Code::None);
  (void)flush();
  if (!stuck_.is_set()) transport_->shutdown_write();
}

net::awaitable<void> H2Side::linger() {
  leave();
  if (!broken_) co_await http::linger(*transport_);
}

}  // namespace osb::intercept
