#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/descriptor.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "base/error.h"

namespace osb::sandboxd {

// Tells the reader of a file that it has been written to. One inotify descriptor for all, of which the kernel gives a
// user few. One loop.
class FileWatch {
 public:
  explicit FileWatch(net::any_io_executor executor) : executor_(executor), tasks_(executor) {}
  ~FileWatch();

  // One reader of one file; lives as long as the pointer, and is closed when the watch goes first.
  class Follower {
   public:
    Follower(FileWatch& all, std::string key, int watch);
    ~Follower();
    // Grows with everything that happened: taken before a look at the file, so that nothing is missed.
    std::uint64_t changes() const { return changes_; }
    bool closed() const { return closed_; }
    // Until something has happened since `seen`, or the watch is closed. Can be cancelled.
    net::awaitable<bool> changed_since(std::uint64_t seen) {
      return notifier_.wait_until([this, seen] { return changes_ != seen || closed_; });
    }

   private:
    friend class FileWatch;
    void tell() {
      ++changes_;
      notifier_.notify_all();
    }
    FileWatch* all_;  // nullptr: gone
    const std::string key_;
    const int watch_;
    std::uint64_t changes_ = 0;
    bool closed_ = false;
    Notifier notifier_;
  };

  // `key` is the name by which poke() knows it.
  Result<std::shared_ptr<Follower>> follow(int fd, std::string key);
  // Something else happened that readers with this key look at.
  void poke(const std::string& key);
  // Readers end, and there will be no others.
  void close();
  // Awaited before the watch goes.
  net::awaitable<void> stop() { return tasks_.close(); }

 private:
  Result<void> open();
  net::awaitable<void> run();
  void remove(Follower& follower);

  net::any_io_executor executor_;
  std::optional<Descriptor> inotify_;  // from the first follower on
  std::multimap<std::string, Follower*> by_key_;
  std::multimap<int, Follower*> by_watch_;
  bool closed_ = false;
  TaskGroup tasks_;
};

}  // namespace osb::sandboxd
