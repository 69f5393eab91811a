#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "async/net.h"
#include "async/timer.h"

namespace osb::execd {

// The unsent frames of one connection. Frames are shared between connections.
class PtyClient {
 public:
  // How a connection ends: a last text frame (may be empty), then the close code.
  struct End {
    std::string text;
    std::uint16_t code = 1000;
    std::string reason;
    bool at_once = false;  // what is queued is not sent any more
  };
  using Frame = std::shared_ptr<const std::string>;

  // View (?mode=viewer): output comes with its offset, and input is answered by an error. Watch (?readonly=1): output
  // comes as the holder gets it, and input is ignored.
  enum class Access { Hold, View, Watch };

  PtyClient(net::any_io_executor executor, Access access, bool input_acks = false)
      : changed_(std::move(executor)), access_(access), input_acks_(input_acks) {}

  Access access() const { return access_; }
  bool read_only() const { return access_ != Access::Hold; }
  // It wants to hear what became of its input.
  bool input_acks() const { return input_acks_; }

  // A binary frame with `bytes` of output in it.
  void push(Frame frame, std::size_t bytes);
  // A text frame.
  void push_text(std::string text);
  // The first call counts.
  void finish(End end);
  // Forgets the queue: the client has to be given a replay from where it was.
  void fall_behind();

  struct Item {
    Frame frame;
    bool text = false;
    std::size_t bytes = 0;
  };
  // The next frame; nothing when there is something else to do: behind(), or the end.
  net::awaitable<std::optional<Item>> next();
  bool behind() const { return behind_; }
  void caught_up(std::uint64_t position) {
    behind_ = false;
    position_ = position;
  }
  const std::optional<End>& end() const { return end_; }

  std::size_t queued() const { return queued_; }
  // Where in the output the next frame from the queue starts.
  std::uint64_t position() const { return position_; }

 private:
  Notifier changed_;
  const Access access_;
  const bool input_acks_;
  std::deque<Item> items_;
  std::size_t queued_ = 0;  // bytes of output in the queue
  std::uint64_t position_ = 0;
  bool behind_ = false;
  std::optional<End> end_;
};

}  // namespace osb::execd
