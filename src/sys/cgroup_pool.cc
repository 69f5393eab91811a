#include "sys/cgroup_pool.h"

#include <fcntl.h>
#include <list>
#include <string>
#include <sys/epoll.h>
#include <sys/file.h>
#include <unistd.h>
#include <vector>

#include "base/id.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "sys/pidfd.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sys {
namespace {

constexpr std::string_view kPrefix = "osb-execd-";
constexpr std::size_t kMaxIdle = 8;
constexpr int kWatchAttempts = 100;

// Locks a pool's directory, or fails if another process has it. The kernel unlocks it when its holder dies.
Result<UniqueFd> lock_directory(const std::string& path) {
  auto directory = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
  if (directory && ::flock(directory->get(), LOCK_EX | LOCK_NB) < 0) return from_errno("lock " + path, errno);
  return directory;
}

}  // namespace

struct CgroupPool::State : std::enable_shared_from_this<State> {
  struct Leaf;
  using Place = std::list<Leaf>::iterator;
  struct Leaf {
    Cgroup cgroup;
    Place place;
    UniqueFd watch;  // kept: its cgroup.events (v2) or the pidfd of one member (v1)
    bool leased = false;
  };
  enum class Phase { New, Open, Off, Closed };

  CgroupSources sources;
  std::function<void()> on_kept;
  Phase phase = Phase::New;
  std::string own;  // our own cgroup's directory
  std::optional<CommandCgroups> home;
  UniqueFd lock;
  UniqueFd epoll;
  std::list<Leaf> leaves;
  std::vector<Place> idle;
  std::size_t kept = 0;
  unsigned made = 0;

  void turn_off(std::string_view why) {
    phase = Phase::Off;
    log_debug("commands run without cgroups", {{"reason", why}});
    for (const Place leaf : idle) drop(leaf);
    idle.clear();
  }

  void open() {
    const auto found = CommandCgroups::find(sources);
    if (!found) return turn_off("no hierarchy can be written");
    own = found->directory();
    for (const std::string& name : found->leaves(kPrefix)) {
      if (const auto abandoned = lock_directory(own + "/" + name)) {
        (void)Cgroup(own + "/" + name, found->kind()).remove();  // not while it has members
      }
    }
    // Another pool that begins now may take the directory for an abandoned one before it is locked.
    Result<UniqueFd> locked;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const auto directory = found->create_leaf(std::string(kPrefix) + new_hex_id());
      if (!directory) return turn_off(directory.error().message);
      locked = lock_directory(directory->directory());
      if (!locked || ::access(directory->directory().c_str(), F_OK) != 0) continue;
      lock = std::move(*locked);
      home.emplace(directory->directory(), directory->kind());
      phase = Phase::Open;
      return;
    }
    turn_off(locked ? "the directory was removed" : locked.error().message);
  }

  Lease take() {
    if (phase == Phase::New) open();
    if (phase != Phase::Open) return nullptr;
    Place leaf;
    if (!idle.empty()) {
      leaf = idle.back();
      idle.pop_back();
    } else {
      const auto cgroup = home->create_leaf("c" + std::to_string(made++));
      if (!cgroup) {
        turn_off(cgroup.error().message);
        return nullptr;
      }
      leaf = leaves.insert(leaves.end(), Leaf{*cgroup, {}, UniqueFd(), false});
      leaf->place = leaf;
    }
    leaf->leased = true;
    return Lease(&leaf->cgroup, [self = shared_from_this(), leaf](const Cgroup*) { self->give_back(leaf); });
  }

  void give_back(Place leaf) {
    leaf->leased = false;
    if (phase == Phase::Closed) {
      leaves.erase(leaf);
      return;
    }
    if (settle(leaf) && on_kept) on_kept();
  }

  // Decides about a leaf without a lease. Returns whether it is kept.
  bool settle(Place leaf) {
    for (int attempt = 0; attempt < kWatchAttempts; ++attempt) {
      const auto use = leaf->cgroup.use();
      if (use == Cgroup::Use::Free && phase == Phase::Open && idle.size() < kMaxIdle) {
        idle.push_back(leaf);
        return false;
      }
      if (use != Cgroup::Use::Busy) {
        drop(leaf);
        return false;
      }
      if (watch(leaf)) return true;
    }
    return false;  // stays until close()
  }

  void drop(Place leaf) {
    if (leaf->cgroup.remove()) leaves.erase(leaf);  // else close() tries again
  }

  bool watch(Place leaf) {
    if (epoll.get() < 0) epoll.reset(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{};
    event.data.ptr = &*leaf;
    if (leaf->cgroup.kind() == Cgroup::Kind::V2) {
      auto file = leaf->cgroup.open_events();
      char text[256];
      // A change after this read is an event, even if the descriptor is not watched yet.
      const ssize_t size = file ? ::read(file->get(), text, sizeof text) : -1;
      if (size < 0 || !parse_cgroup_events({text, static_cast<std::size_t>(size)}).populated) return false;
      event.events = EPOLLPRI;
      leaf->watch = std::move(*file);
    } else {
      const auto members = leaf->cgroup.pids();
      auto member = members.empty() ? Result<UniqueFd>(fail(Code::NotFound, "no member")) : open_pidfd(members.front());
      if (!member) return false;
      event.events = EPOLLIN;
      leaf->watch = std::move(*member);
    }
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, leaf->watch.get(), &event) < 0) {
      leaf->watch.reset();
      return false;
    }
    ++kept;
    return true;
  }

  void unwatch(Place leaf) {
    // By name: a child on its way to exec still has a copy of the descriptor.
    ::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, leaf->watch.get(), nullptr);
    leaf->watch.reset();
    --kept;
  }

  void collect() {
    epoll_event events[64];
    const int count = epoll.get() < 0 ? 0 : ::epoll_wait(epoll.get(), events, std::size(events), 0);
    for (int i = 0; i < count; ++i) {
      const Place leaf = static_cast<Leaf*>(events[i].data.ptr)->place;
      unwatch(leaf);
      settle(leaf);
    }
  }

  void close() {
    if (phase == Phase::Closed) return;
    phase = Phase::Closed;
    on_kept = nullptr;
    idle.clear();
    kept = 0;
    for (auto leaf = leaves.begin(); leaf != leaves.end();) {
      leaf->watch.reset();
      leaf->cgroup.move_members(own);
      (void)leaf->cgroup.remove();
      leaf = leaf->leased ? std::next(leaf) : leaves.erase(leaf);
    }
    epoll.reset();
    if (home) (void)Cgroup(home->directory(), home->kind()).remove();
    lock.reset();
  }
};

CgroupPool::CgroupPool(CgroupSources sources, std::function<void()> on_kept) : state_(std::make_shared<State>()) {
  state_->sources = std::move(sources);
  state_->on_kept = std::move(on_kept);
}

CgroupPool::~CgroupPool() { close(); }

CgroupPool::Lease CgroupPool::lease() { return state_->take(); }

void CgroupPool::give_up(std::string_view why) {
  if (state_->phase == State::Phase::Open) state_->turn_off(why);
}

int CgroupPool::events() const { return state_->epoll.get(); }
void CgroupPool::collect() { state_->collect(); }
std::size_t CgroupPool::kept() const { return state_->kept; }
std::size_t CgroupPool::idle() const { return state_->idle.size(); }
void CgroupPool::close() { state_->close(); }

}  // namespace osb::sys
