#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/net.h"
#include "async/timer.h"
#include "http/body.h"
#include "mcp/call.h"

namespace osb::mcp {

// The events of one stream: the answer to a POST, or number 0 for what belongs to no request. They are kept for a
// while, so that a client that lost its connection goes on with Last-Event-ID.
class EventStream final : public Outlet, public std::enable_shared_from_this<EventStream> {
 public:
  static constexpr std::size_t kMostKept = 4 << 20;  // bytes of events that have been sent

  // Complete after `requests` answers or drops; nothing: never.
  EventStream(net::any_io_executor loop, std::uint64_t number, std::optional<std::size_t> requests);

  void send(std::string message) override { add({std::move(message), false}); }
  void answer(std::string message) override;
  void drop() override;
  // Ends the copies; later messages are dropped.
  void close();

  bool complete() const { return closed_ || left_ == std::size_t{0}; }
  std::uint64_t number() const { return number_; }
  // How many events there have been.
  std::uint64_t count() const { return first_ + events_.size() - 1; }
  // The last event that was written to a connection.
  std::uint64_t sent() const { return sent_; }
  // Until something changes.
  net::awaitable<bool> wait() { return changed_.wait(); }
  // The answers that are still kept.
  std::vector<std::string> answers() const;

  // Writes events behind number `after` as they come, until the stream is complete, the client leaves or another copy
  // takes over. `prime` begins with an event that is empty but for its id, so that the client can return even if it
  // gets nothing else. The caller holds the stream.
  net::awaitable<Result<void>> copy_to(http::BodyWriter& writer, std::uint64_t after, bool prime);

  // "<stream>-<event>", as in the id of an event.
  struct EventId {
    std::uint64_t stream = 0;
    std::uint64_t event = 0;
  };
  static std::optional<EventId> parse_id(std::string_view text);

 private:
  struct Event {
    std::string message;
    bool answer = false;
  };
  void add(Event event);
  net::awaitable<bool> wait_for_news(http::BodyWriter& writer, std::uint64_t after, std::uint64_t mine);
  void forget_sent(std::uint64_t sent);

  const std::uint64_t number_;
  std::optional<std::size_t> left_;
  std::deque<Event> events_;
  std::uint64_t first_ = 1;     // number of events_.front()
  std::uint64_t sent_ = 0;      // the last event that was written to a connection
  std::size_t sent_bytes_ = 0;  // of those still kept
  std::uint64_t copies_ = 0;
  bool closed_ = false;
  Notifier changed_;
};

}  // namespace osb::mcp
