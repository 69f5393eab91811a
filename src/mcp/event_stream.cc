#include "mcp/event_stream.h"

#include <algorithm>
#include <charconv>

#include "async/race.h"

namespace osb::mcp {
namespace {

using namespace race;

// Finds out about clients that went without a word, and keeps proxies from closing a quiet stream.
constexpr std::chrono::seconds kKeepAlive(20);
// A stream without a reader does not grow beyond this many events.
constexpr std::size_t kMostUnread = 10'000;

}  // namespace

EventStream::EventStream(net::any_io_executor loop, std::uint64_t number, std::optional<std::size_t> requests)
    : number_(number), left_(requests), changed_(loop) {}

void EventStream::add(Event event) {
  if (closed_) return;
  events_.push_back(std::move(event));
  while (events_.size() > kMostUnread) forget_sent(first_);
  changed_.notify_all();
}

void EventStream::answer(std::string message) {
  add({std::move(message), true});
  drop();
}

void EventStream::drop() {
  if (left_ && *left_ > 0) --*left_;
  if (complete()) changed_.notify_all();
}

std::vector<std::string> EventStream::answers() const {
  std::vector<std::string> out;
  for (const Event& event : events_) {
    if (event.answer) out.push_back(event.message);
  }
  return out;
}

void EventStream::close() {
  closed_ = true;
  changed_.notify_all();
}

// Events up to `until` are no longer kept.
void EventStream::forget_sent(std::uint64_t until) {
  while (first_ <= until && !events_.empty()) {
    if (first_ <= sent_) sent_bytes_ -= events_.front().message.size();
    events_.pop_front();
    ++first_;
  }
}

net::awaitable<bool> EventStream::wait_for_news(http::BodyWriter& writer, std::uint64_t after, std::uint64_t mine) {
  for (;;) {
    auto changed =
        changed_.wait_until([this, after, mine] { return count() > after || complete() || copies_ != mine; });
    const auto outcome = co_await (std::move(changed) || writer.peer_closed() || sleep_for(kKeepAlive));
    if (outcome.index() == 0) co_return std::get<0>(outcome);
    if (outcome.index() == 1) co_return false;
    if (auto written = co_await writer.write(": still here\n\n"); !written) co_return false;
  }
}

net::awaitable<Result<void>> EventStream::copy_to(http::BodyWriter& writer, std::uint64_t after, bool prime) {
  const std::uint64_t mine = ++copies_;
  changed_.notify_all();
  const std::string prefix = "id: " + std::to_string(number_) + "-";
  if (prime) {
    if (auto written = co_await writer.write(prefix + std::to_string(after) + "\ndata: \n\n"); !written)
      co_return written;
  } else if (auto flushed = co_await writer.flush(); !flushed) {
    co_return flushed;
  }
  while (copies_ == mine && !closed_) {
    if (count() > after) {
      after = std::max(after + 1, first_);
      // A copy: the event may be forgotten while it is written.
      const std::string event = events_[after - first_].message;
      const std::string head = prefix + std::to_string(after) + "\nevent: message\ndata: ";
      const std::string_view pieces[] = {head, event, "\n\n"};
      if (auto written = co_await writer.write(pieces); !written) co_return written;
      if (after > sent_) {
        sent_ = after;
        if (first_ <= after) sent_bytes_ += event.size();
      }
      while (sent_bytes_ > kMostKept && first_ < sent_) forget_sent(first_);
      continue;
    }
    if (complete()) break;
    if (!co_await wait_for_news(writer, after, mine)) break;
  }
  co_return Result<void>();
}

std::optional<EventStream::EventId> EventStream::parse_id(std::string_view text) {
  EventId out;
  const char* const end = text.data() + text.size();
  const auto stream = std::from_chars(text.data(), end, out.stream);
  if (stream.ec != std::errc() || stream.ptr == end || *stream.ptr != '-') return std::nullopt;
  const auto event = std::from_chars(stream.ptr + 1, end, out.event);
  if (event.ec != std::errc() || event.ptr != end) return std::nullopt;
  return out;
}

}  // namespace osb::mcp
