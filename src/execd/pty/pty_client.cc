#include "execd/pty/pty_client.h"

#include <utility>

namespace osb::execd {

void PtyClient::push(Frame frame, std::size_t bytes) {
  if (behind_ || end_) return;
  items_.push_back({std::move(frame), false, bytes});
  queued_ += bytes;
  changed_.notify_all();
}

void PtyClient::push_text(std::string text) {
  if (end_) return;
  items_.push_back({std::make_shared<const std::string>(std::move(text)), true, 0});
  changed_.notify_all();
}

void PtyClient::finish(End end) {
  if (end_) return;
  if (end.at_once) {
    items_.clear();
    queued_ = 0;
    behind_ = false;
  }
  end_ = std::move(end);
  changed_.notify_all();
}

void PtyClient::fall_behind() {
  std::erase_if(items_, [](const Item& item) { return !item.text; });
  queued_ = 0;
  behind_ = true;
  changed_.notify_all();
}

net::awaitable<std::optional<PtyClient::Item>> PtyClient::next() {
  while (items_.empty()) {
    if (behind_ || end_ || !co_await changed_.wait()) co_return std::nullopt;
  }
  Item item = std::move(items_.front());
  items_.pop_front();
  queued_ -= item.bytes;
  position_ += item.bytes;
  co_return item;
}

}  // namespace osb::execd
