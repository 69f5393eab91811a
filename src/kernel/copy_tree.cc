#include "kernel/copy_tree.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "kernel/copy_tree_attributes.h"
#include "kernel/reflink.h"
#include "sys/openat2.h"
#include "sys/syscall.h"

namespace osb::kernel {

namespace {

constexpr std::uint64_t kBlock = 4096;

// Large files go to the disk in steps while they are copied: a sync afterwards then takes a third of the time, at no
// cost for the copy. For small files starting each one's write costs more than it saves.
constexpr std::size_t kWriteStep = 4 << 20;
constexpr off_t kWriteEarly = 1 << 20;

// A directory to copy. Names hang on their parents, so that a million of them stays small.
struct Pending {
  std::shared_ptr<const Pending> parent;
  std::string name;
  std::size_t length = 0;  // of the path
};

std::string path_of(const Pending& directory) {
  if (directory.parent == nullptr) return ".";
  std::string path(directory.length, '/');
  std::size_t end = path.size();
  for (const Pending* at = &directory; at->parent != nullptr; at = at->parent.get()) {
    end -= at->name.size();
    path.replace(end, at->name.size(), at->name);
    if (end > 0) --end;
  }
  return path;
}

bool is_whiteout(const struct stat& st) { return S_ISCHR(st.st_mode) && st.st_rdev == 0; }

Result<UniqueFd> open_directory(int root, const std::string& path) {
  return sys::openat2(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NOATIME,
                      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);
}

class TreeCopier {
 public:
  TreeCopier(int source, int destination, const CopyTreeOptions& options)
      : source_(source), destination_(destination), options_(options) {}

  Result<CopiedTree> run() {
    pending_.push_back(std::make_shared<Pending>());
    {
      std::vector<std::jthread> helpers;
      for (unsigned n = 1; n < options_.threads; ++n) helpers.emplace_back([this] { work(); });
      work();
    }
    if (failed_) return Failure(std::move(*failed_));
    return CopiedTree{entries_, bytes_, cloned_, skipped_};
  }

 private:
  // One thread's part: what it is copying right now.
  struct Worker {
    std::string attributes;
    std::string data;
  };
  struct Directory {
    std::shared_ptr<const Pending> pending;
    int from;
    int to;
  };

  void work() {
    Worker worker;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return failed_ || !pending_.empty() || busy_ == 0; });
      if (failed_ || pending_.empty()) break;
      const auto next = std::move(pending_.back());
      pending_.pop_back();
      ++busy_;
      lock.unlock();
      auto copied = copy_directory(worker, next);
      lock.lock();
      --busy_;
      if (!copied && !failed_) failed_ = std::move(copied.error());
    }
    changed_.notify_all();
  }

  Result<void> copy_directory(Worker& worker, const std::shared_ptr<const Pending>& pending) {
    const std::string path = path_of(*pending);
    auto from = open_directory(source_, path);
    if (!from) return Failure(from.error());
    const auto to = open_directory(destination_, path);
    if (!to) return Failure(to.error());
    if (auto copied = copy_entries(worker, {pending, from->get(), to->get()}); !copied) return copied;
    // Last, because entries change the directory's times. The root's are copied like any other's.
    struct stat st;
    if (::fstat(from->get(), &st) < 0) return sys::from_errno(path + ": stat", errno);
    const bool overlay = options_.overlay_upper;
    auto done = copy_metadata({from->get()}, {to->get()}, st, overlay, worker.attributes);
    return done ? done : with_context(path, done.error());
  }

  Result<void> copy_entries(Worker& worker, const Directory& directory) {
    // A descriptor of its own: the stream closes what it reads from.
    auto stream_fd = sys::open_at(directory.from, ".", O_RDONLY | O_DIRECTORY | O_NOATIME);
    if (!stream_fd) return Failure(stream_fd.error());
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(stream_fd->get()), &::closedir);
    if (stream == nullptr) return sys::from_errno("read a directory", errno);
    static_cast<void>(stream_fd->release());
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(stream.get());
      if (entry == nullptr && errno != 0) return sys::from_errno(path_of(*directory.pending) + ": readdir", errno);
      if (entry == nullptr) return {};
      if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
      if (auto room = within_limits(); !room) return room;
      auto copied = copy_entry(worker, directory, entry->d_name);
      if (!copied)
        return with_context(fmt::format("{}/{}", path_of(*directory.pending), entry->d_name), copied.error());
    }
  }

  Result<void> within_limits() const {
    if (bytes_ <= options_.max_bytes && entries_ <= options_.max_entries) return {};
    return fail(Code::Exhausted, fmt::format("the tree has more than {} MiB or {} entries", options_.max_bytes >> 20,
                                             options_.max_entries));
  }

  Result<void> copy_entry(Worker& worker, const Directory& directory, const char* name) {
    struct stat st;
    if (::fstatat(directory.from, name, &st, AT_SYMLINK_NOFOLLOW) < 0) return sys::from_errno("stat", errno);
    if (S_ISDIR(st.st_mode)) return add_directory(directory, name);
    if (S_ISSOCK(st.st_mode) || S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && !is_whiteout(st))) {
      return leave_out(directory, name);
    }
    ++entries_;
    if (st.st_nlink == 1) return copy_new(worker, directory, name, st);

    // The first name of several makes the file, the others link to it; its contents may still be on their way then.
    std::unique_lock lock(links_mutex_);
    const auto key = std::pair(st.st_dev, st.st_ino);
    if (const auto first = links_.find(key); first != links_.end()) {
      const std::string& path = first->second.path;
      if (::linkat(destination_, path.c_str(), directory.to, name, 0) < 0) {
        return sys::from_errno(fmt::format("link to {}", path), errno);
      }
      if (--first->second.left == 0) links_.erase(first);
      return {};
    }
    std::string path = directory.pending->parent == nullptr ? name : path_of(*directory.pending) + "/" + name;
    links_.emplace(key, Link{std::move(path), st.st_nlink - 1});
    return copy_new(worker, directory, name, st, std::move(lock));
  }

  Result<void> add_directory(const Directory& directory, const char* name) {
    ++entries_;
    bytes_ += kBlock;
    const std::size_t length = directory.pending->length + (directory.pending->parent ? 1 : 0) + std::strlen(name);
    // Room for the longest name inside, so that every link target has a path.
    if (length + 1 + NAME_MAX >= PATH_MAX) {
      return fail(Code::Unsupported, fmt::format("the path has {} bytes, more than a tree copy can hold", length));
    }
    if (::mkdirat(directory.to, name, 0700) < 0) return sys::from_errno("mkdir", errno);
    auto pending = std::make_shared<Pending>(directory.pending, name, length);
    const std::lock_guard lock(mutex_);
    pending_.push_back(std::move(pending));
    changed_.notify_one();
    return {};
  }

  Result<void> leave_out(const Directory& directory, const char* name) {
    ++skipped_;
    if (!options_.overlay_upper) return {};
    auto merged = directory.pending->parent == nullptr ? Result<bool>(true) : is_merged_directory(directory.from);
    if (!merged) return Failure(merged.error());
    if (!*merged) return {};
    ++entries_;
    bytes_ += kBlock;
    if (::mknodat(directory.to, name, S_IFCHR, 0) < 0) return sys::from_errno("mknod", errno);
    return {};
  }

  // `making` is held until the name exists.
  Result<void> copy_new(Worker& worker, const Directory& directory, const char* name, const struct stat& st,
                        std::unique_lock<std::mutex> making = {}) {
    if (S_ISREG(st.st_mode)) return copy_file(worker, directory, name, std::move(making));
    bytes_ += kBlock;
    if (S_ISLNK(st.st_mode)) {
      char target[PATH_MAX];
      const ssize_t size = ::readlinkat(directory.from, name, target, sizeof target - 1);
      if (size < 0) return sys::from_errno("readlink", errno);
      target[size] = '\0';
      if (::symlinkat(target, directory.to, name) < 0) return sys::from_errno("symlink", errno);
    } else if (::mknodat(directory.to, name, st.st_mode & S_IFMT, 0) < 0) {
      return sys::from_errno("mknod", errno);
    }
    return copy_metadata({directory.from, name}, {directory.to, name}, st, options_.overlay_upper, worker.attributes);
  }

  Result<void> copy_file(Worker& worker, const Directory& directory, const char* name,
                         std::unique_lock<std::mutex> making) {
    const auto to = sys::open_at(directory.to, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!to) return Failure(to.error());
    if (making) making.unlock();
    // O_NONBLOCK: should it be a FIFO by now, opening does not wait.
    const auto from = sys::open_at(directory.from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME);
    if (!from) return Failure(from.error());
    struct stat st;
    if (::fstat(from->get(), &st) < 0) return sys::from_errno("stat", errno);
    if (!S_ISREG(st.st_mode)) return fail(Code::Conflict, "changed while it was copied");
    bytes_ += std::max(static_cast<std::uint64_t>(st.st_blocks) * 512, kBlock);
    if (auto room = within_limits(); !room) return room;
    if (auto copied = copy_contents(worker, from->get(), to->get(), st); !copied) return copied;
    return copy_metadata({from->get()}, {to->get()}, st, options_.overlay_upper, worker.attributes);
  }

  Result<void> copy_contents(Worker& worker, int from, int to, const struct stat& st) {
    if (st.st_size == 0) return {};
    if (can_clone_) {
      const auto cloned = clone_file(from, to);
      if (!cloned) return Failure(cloned.error());
      if (*cloned) {
        ++cloned_;
        return {};
      }
      if (cloned_ == 0) can_clone_ = false;
    }
    if (st.st_blocks * 512 >= st.st_size) return copy_range(worker, from, to, 0, st.st_size);
    if (::ftruncate(to, st.st_size) < 0) return sys::from_errno("truncate", errno);
    for (off_t at = 0; at < st.st_size;) {
      const off_t data = ::lseek(from, at, SEEK_DATA);
      if (data < 0 && errno == ENXIO) return {};  // a hole up to the end
      if (data < 0) return sys::from_errno("find data", errno);
      const off_t hole = ::lseek(from, data, SEEK_HOLE);
      if (hole < 0) return sys::from_errno("find holes", errno);
      if (auto copied = copy_range(worker, from, to, data, hole); !copied) return copied;
      at = hole;
    }
    return {};
  }

  Result<void> copy_range(Worker& worker, int from, int to, off_t at, off_t end) {
    while (at < end && in_kernel_) {
      off_t in = at, out = at;
      const auto step = std::min(kWriteStep, static_cast<std::size_t>(end - at));
      const ssize_t copied = ::copy_file_range(from, &in, to, &out, step, 0);
      if (copied == 0) return {};  // shorter than it was
      if (copied > 0) {
        // Only a head start: the sync does the rest and reports errors.
        if (copied >= kWriteEarly) static_cast<void>(::sync_file_range(to, at, copied, SYNC_FILE_RANGE_WRITE));
        at += copied;
      } else if (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS) {
        in_kernel_ = false;
      } else if (errno != EINTR) {
        return sys::from_errno("copy", errno);
      }
    }
    worker.data.resize(256 << 10);
    while (at < end) {
      const auto wanted = std::min<std::size_t>(worker.data.size(), static_cast<std::size_t>(end - at));
      const ssize_t got = ::pread(from, worker.data.data(), wanted, at);
      if (got == 0) return {};
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return sys::from_errno("read", errno);
      for (ssize_t done = 0; done < got;) {
        const ssize_t put = ::pwrite(to, worker.data.data() + done, static_cast<std::size_t>(got - done), at + done);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return sys::from_errno("write", errno);
        done += put;
      }
      at += got;
    }
    return {};
  }

  struct Link {
    std::string path;
    nlink_t left;  // names not seen yet
  };

  const int source_;
  const int destination_;
  const CopyTreeOptions options_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<const Pending>> pending_;
  unsigned busy_ = 0;
  std::optional<Error> failed_;

  std::mutex links_mutex_;
  std::map<std::pair<dev_t, ino_t>, Link> links_;

  std::atomic<bool> can_clone_ = true;
  std::atomic<bool> in_kernel_ = true;
  std::atomic<std::uint64_t> entries_ = 0;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<std::uint64_t> cloned_ = 0;
  std::atomic<std::uint64_t> skipped_ = 0;
};

}  // namespace

Result<CopiedTree> copy_tree(int source, int destination, const CopyTreeOptions& options) {
  return TreeCopier(source, destination, options).run();
}

}  // namespace osb::kernel
