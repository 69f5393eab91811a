#include "sandboxd/sandbox/file_watch.h"

#include <cstring>
#include <sys/inotify.h>
#include <unistd.h>

#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

template <typename Map, typename Key>
void erase_one(Map& map, const Key& key, FileWatch::Follower* follower) {
  auto [begin, end] = map.equal_range(key);
  for (; begin != end; ++begin) {
    if (begin->second != follower) continue;
    map.erase(begin);
    return;
  }
}

}  // namespace

FileWatch::~FileWatch() {
  close();
  for (const auto& [key, follower] : by_key_) follower->all_ = nullptr;
}

FileWatch::Follower::Follower(FileWatch& all, std::string key, int watch)
    : all_(&all), key_(std::move(key)), watch_(watch), notifier_(all.executor_) {
  all.by_key_.emplace(key_, this);
  all.by_watch_.emplace(watch_, this);
}

FileWatch::Follower::~Follower() {
  if (all_ != nullptr) all_->remove(*this);
}

void FileWatch::remove(Follower& follower) {
  erase_one(by_key_, follower.key_, &follower);
  erase_one(by_watch_, follower.watch_, &follower);
  // The kernel has one watch for all readers of a file.
  if (!by_watch_.contains(follower.watch_) && inotify_) (void)::inotify_rm_watch(inotify_->fd(), follower.watch_);
}

Result<void> FileWatch::open() {
  UniqueFd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd) return sys::from_errno("inotify_init", errno);
  auto descriptor = Descriptor::open(executor_, std::move(fd));
  if (!descriptor) return Failure(descriptor.error());
  inotify_.emplace(std::move(*descriptor));
  tasks_.spawn("watch files", run());
  return {};
}

Result<std::shared_ptr<FileWatch::Follower>> FileWatch::follow(int fd, std::string key) {
  if (closed_) return fail(Code::Unavailable, "the daemon is ending");
  if (!inotify_) {
    if (auto opened = open(); !opened) return Failure(opened.error());
  }
  // By descriptor: this is the file that is read, even if the name leads elsewhere by now.
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int watch = ::inotify_add_watch(inotify_->fd(), path.c_str(), IN_MODIFY);
  if (watch < 0) return sys::from_errno("watch the log of " + key, errno);
  return std::make_shared<Follower>(*this, std::move(key), watch);
}

void FileWatch::poke(const std::string& key) {
  auto [begin, end] = by_key_.equal_range(key);
  for (; begin != end; ++begin) begin->second->tell();
}

void FileWatch::close() {
  closed_ = true;
  for (const auto& [key, follower] : by_key_) {
    follower->closed_ = true;
    follower->tell();
  }
}

net::awaitable<void> FileWatch::run() {
  alignas(inotify_event) char buffer[4096];
  for (;;) {
    const auto size = co_await inotify_->read_some(buffer);
    if (!size || *size == 0) co_return;
    for (std::size_t at = 0; at + sizeof(inotify_event) <= *size;) {
      inotify_event event;
      std::memcpy(&event, buffer + at, sizeof event);
      at += sizeof event + event.len;
      if ((event.mask & IN_Q_OVERFLOW) != 0) {
        for (const auto& [key, follower] : by_key_) follower->tell();
      }
      auto [begin, end] = by_watch_.equal_range(event.wd);
      for (; begin != end; ++begin) begin->second->tell();
    }
  }
}

}  // namespace osb::sandboxd
