#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/timer.h"
#include "base/error.h"

namespace osb::sandboxd {

// Tells watchers which sandboxes have changed. A slow watcher gets each name once and then reads the latest state, so
// that its cost is bounded by the number of sandboxes. One loop.
class EventFeed {
 public:
  explicit EventFeed(net::any_io_executor executor) : executor_(std::move(executor)) {}

  class Watcher {
   public:
    explicit Watcher(const net::any_io_executor& executor) : notifier_(executor) {}
    // Names that have changed since the last call, and why one could not be created; waits for the first. Empty:
    // cancelled, or the feed is closed.
    using Changes = std::map<std::string, std::optional<Error>>;
    net::awaitable<Changes> next() {
      co_await notifier_.wait_until([this] { return !changed_.empty() || closed_; });
      co_return std::exchange(changed_, {});
    }

   private:
    friend class EventFeed;
    Changes changed_;
    bool closed_ = false;
    Notifier notifier_;
  };

  // Lives as long as the pointer.
  std::shared_ptr<Watcher> watch() {
    auto watcher = std::make_shared<Watcher>(executor_);
    watchers_.push_back(watcher);
    return watcher;
  }

  // Ends what watchers wait for.
  void close() {
    for (const auto& each : watchers_) {
      const auto watcher = each.lock();
      if (!watcher) continue;
      watcher->closed_ = true;
      watcher->notifier_.notify_all();
    }
  }

  void publish(const std::string& id, const std::optional<Error>& failure = std::nullopt) {
    std::erase_if(watchers_, [&](const std::weak_ptr<Watcher>& each) {
      const auto watcher = each.lock();
      if (!watcher) return true;
      watcher->changed_[id] = failure;
      watcher->notifier_.notify_all();
      return false;
    });
  }

 private:
  net::any_io_executor executor_;
  std::vector<std::weak_ptr<Watcher>> watchers_;
};

}  // namespace osb::sandboxd
