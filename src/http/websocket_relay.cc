#include "http/websocket_relay.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "async/race.h"
#include "http/websocket_key.h"

namespace osb::http {

namespace ws {
namespace {

constexpr std::size_t kMaxControl = 125;

std::uint8_t byte_at(std::string_view text, std::size_t at) { return static_cast<std::uint8_t>(text[at]); }

// The size of the head that begins so; 0: the first two bytes are not here yet.
std::size_t head_size(std::string_view head) {
  if (head.size() < 2) return 0;
  const unsigned length = byte_at(head, 1) & 0x7F;
  return 2u + (length == 126 ? 2u : length == 127 ? 8u : 0u) + ((byte_at(head, 1) & 0x80) != 0 ? 4u : 0u);
}

std::uint64_t payload_size(std::string_view head) {
  const unsigned length = byte_at(head, 1) & 0x7F;
  if (length < 126) return length;
  std::uint64_t size = 0;
  for (std::size_t i = 2; i < (length == 126 ? 4u : 10u); ++i) size = size << 8 | byte_at(head, i);
  return size;
}

bool is_close(std::string_view head) { return !head.empty() && (byte_at(head, 0) & 0x0F) == int(Opcode::Close); }

}  // namespace

// True: the head of the next frame is whole.
bool CloseFilter::take_head(std::string_view& bytes) {
  for (;;) {
    const std::size_t want = std::max<std::size_t>(head_size(head_), 2);
    if (head_.size() == want) return true;
    if (bytes.empty()) return false;
    const std::size_t take = std::min(want - head_.size(), bytes.size());
    head_ += bytes.substr(0, take);
    bytes.remove_prefix(take);
  }
}

CloseFilter::Passed CloseFilter::pass(std::string_view bytes) {
  if (closed_) return {};
  const std::string_view all = bytes;
  for (;;) {
    const std::size_t skip = std::min<std::uint64_t>(left_, bytes.size());
    left_ -= skip;
    bytes.remove_prefix(skip);
    if (bytes.empty()) return {all, {}};
    // Everything from the first byte of a close frame on is held back.
    if (head_.empty() ? is_close(bytes) : is_close(head_)) {
      const std::string_view before = all.substr(0, all.size() - bytes.size());
      take_close(bytes);
      return {before, closed_ ? std::string_view(close_) : std::string_view()};
    }
    if (!take_head(bytes)) return {all, {}};
    left_ = payload_size(head_);
    head_.clear();
  }
}

// Collects the frame in head_, head and payload, until it is whole.
void CloseFilter::take_close(std::string_view bytes) {
  head_ += bytes;
  const std::size_t head = head_size(head_);
  if (head == 0) return;
  const bool too_long = (byte_at(head_, 1) & 0x7F) > kMaxControl;
  if (!too_long && (head_.size() < head || head_.size() < head + payload_size(head_))) return;
  closed_ = true;
  std::string payload = too_long ? "?" : head_.substr(head, payload_size(head_));
  if (!too_long && (byte_at(head_, 1) & 0x80) != 0) {
    Mask mask;
    std::copy_n(head_.data() + 2, mask.size(), mask.data());
    apply_mask(payload.data(), payload.size(), mask, 0);
  }
  const unsigned code = payload.size() < 2 ? 0 : byte_at(payload, 0) << 8 | byte_at(payload, 1);
  if (is_sendable_close_code(static_cast<std::uint16_t>(code))) {
    close_ = head_.substr(0, head + payload.size());
  } else if (payload.empty()) {
    make_close(close_code::kNormal);
  } else {
    make_close(receiver_ == Role::Client ? close_code::kInternalError : close_code::kGoingAway);
  }
}

void CloseFilter::make_close(std::uint16_t code) {
  close_.clear();
  const Mask mask = new_mask();
  append_control_frame(close_, Opcode::Close, close_payload(code, ""), receiver_ == Role::Server ? &mask : nullptr);
}

std::string_view CloseFilter::end() {
  if (closed_ || left_ > 0 || (!head_.empty() && !is_close(head_))) return {};
  closed_ = true;
  make_close(receiver_ == Role::Client ? close_code::kInternalError : close_code::kGoingAway);
  return close_;
}

}  // namespace ws

namespace {

using namespace race;

// The time for a side to end after it was told that the other is lost.
constexpr std::chrono::seconds kCloseTime(10);

void close_both(Transport& one, Transport& other) {
  one.close();
  other.close();
}

net::awaitable<bool> send(Transport& to, ws::CloseFilter::Passed passed) {
  if (!passed.frames.empty() && !co_await to.write_all(passed.frames)) co_return false;
  if (!passed.close.empty() && !co_await to.write_all(passed.close)) co_return false;
  co_return true;
}

// Both sides have sent their close frames: there is nothing to come. Each is told so at once, for a peer may leave the
// end of the connection to the other.
void end_both(Transport& one, Transport& other) {
  for (Transport* each : {&one, &other}) {
    each->set_timeout(kCloseTime);
    each->shutdown_write();
  }
}

// `closes`: close frames sent by now, in both directions.
net::awaitable<void> relay_one(Transport& from, Transport& to, std::string first, ws::Role receiver, int& closes) {
  ws::CloseFilter filter(receiver);
  const auto pass = [&](std::string_view bytes) -> net::awaitable<bool> {
    const bool was_closed = filter.closed();
    if (!co_await send(to, filter.pass(bytes))) co_return false;
    if (filter.closed() && !was_closed && ++closes == 2) end_both(from, to);
    co_return true;
  };
  if (!first.empty() && !co_await pass(first)) co_return close_both(from, to);
  std::vector<char> buffer(16 * 1024);
  for (;;) {
    const auto got = co_await from.read_some(buffer);
    if (!got || *got == 0) {
      const std::string_view close = filter.end();
      if (!close.empty()) {
        to.set_timeout(kCloseTime);
        if (!co_await to.write_all(close)) co_return close_both(from, to);
      } else if (!got) {
        co_return close_both(from, to);
      }
      to.shutdown_write();
      if (!got) from.close();
      co_return;
    }
    if (!co_await pass({buffer.data(), *got})) co_return close_both(from, to);
    if (*got == buffer.size() && buffer.size() < 256 * 1024) buffer.resize(buffer.size() * 4);
  }
}

}  // namespace

net::awaitable<void> relay_websocket(Transport& client, std::string from_client, std::unique_ptr<Transport> backend,
                                     std::string from_backend) {
  int closes = 0;
  co_await (relay_one(client, *backend, std::move(from_client), ws::Role::Server, closes) &&
            relay_one(*backend, client, std::move(from_backend), ws::Role::Client, closes));
}

}  // namespace osb::http
