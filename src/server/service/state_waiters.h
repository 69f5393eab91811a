#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "async/net.h"
#include "async/timer.h"

namespace osb::server {

// Requests that wait for a change of a sandbox: a change wakes only the waiters of its id. One loop.
class StateWaiters {
 public:
  explicit StateWaiters(net::any_io_executor executor) : executor_(std::move(executor)) {}

  void notify(const std::string& id) {
    if (const auto found = waiting_.find(id); found != waiting_.end()) found->second->notifier.notify_all();
  }

  void notify_all() {
    for (const auto& [id, entry] : waiting_) entry->notifier.notify_all();
  }

  // Until the next notify(id), which cannot come between the caller's last look and this. False: cancelled.
  net::awaitable<bool> wait(std::string id) {
    auto& entry = waiting_[id];
    if (!entry) entry = std::make_shared<Entry>(executor_);
    const std::shared_ptr<Entry> held = entry;
    ++held->count;
    const Leave leave{*this, id, *held};
    co_return co_await held->notifier.wait();
  }

 private:
  struct Entry {
    explicit Entry(net::any_io_executor executor) : notifier(std::move(executor)) {}
    Notifier notifier;
    int count = 0;
  };
  struct Leave {
    StateWaiters& all;
    const std::string& id;
    Entry& entry;
    ~Leave() {
      if (--entry.count == 0) all.waiting_.erase(id);
    }
  };

  net::any_io_executor executor_;
  std::unordered_map<std::string, std::shared_ptr<Entry>> waiting_;
};

}  // namespace osb::server
