#include "execd/run/run_host.h"

#include <cerrno>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "execd/run/oom_score.h"

namespace osb::execd {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

}  // namespace

struct RunHost::Drain {
  Drain(RunHost& owner, UniqueFd fd, std::weak_ptr<OutputLog> log)
      : host(&owner), pipe(owner.executor(), fd.release()), into(std::move(log)) {}

  RunHost* host;  // null once closed
  net::posix::stream_descriptor pipe;
  std::weak_ptr<OutputLog> into;
  std::list<std::shared_ptr<Drain>>::iterator place;
};

// Waits for the pool's descriptor, which stays the pool's.
struct RunHost::CgroupWatch {
  CgroupWatch(RunHost& owner, int fd) : host(&owner), events(owner.executor(), fd) {}
  ~CgroupWatch() {
    if (events.is_open()) static_cast<void>(events.release());
  }

  RunHost* host;  // null once closed
  net::posix::stream_descriptor events;
};

RunHost::RunHost(net::any_io_executor executor, ChildReaper& reaper, BlockingPool& pool, sys::CgroupSources cgroups,
                 OomKills oom_kills, const Clock& clock)
    : executor_(std::move(executor)),
      reaper_(reaper),
      pool_(pool),
      clock_(clock),
      cgroups_(std::move(cgroups),
               [this] {
                 if (!cgroup_watch_) watch_cgroups();
               }),
      oom_kills_(std::move(oom_kills)) {}

RunHost::~RunHost() {
  close();
  close_cgroups();
}

Result<RunHost::Started> RunHost::spawn(sys::SpawnPlan process) {
  auto cgroup = cgroups_.lease();
  UniqueFd entry;
  if (cgroup) {
    auto opened = cgroup->enter(process);
    if (opened) {
      entry = std::move(*opened);
    } else {
      cgroups_.give_up(opened.error().message);
    }
  }
  process.oom_score_adj = command_oom_score();
  auto child = sys::spawn(process);
  if (!child) return Failure(child.error());
  if (cgroup && !child->in_cgroup) {
    cgroups_.give_up("a process cannot begin in one");
    cgroup.reset();
  }
  return Started{std::move(*child), std::move(cgroup)};
}

void RunHost::watch_cgroups() {
  if (!cgroup_watch_) cgroup_watch_ = std::make_shared<CgroupWatch>(*this, cgroups_.events());
  auto& events = cgroup_watch_->events;
  events.async_wait(net::posix::stream_descriptor::wait_read, [watch = cgroup_watch_](boost::system::error_code) {
    RunHost* const host = watch->host;
    if (host == nullptr) return;
    host->cgroups_.collect();
    if (host->cgroups_.kept() > 0) {
      host->watch_cgroups();
    } else {
      host->cgroup_watch_.reset();
    }
  });
}

void RunHost::close_cgroups() {
  if (cgroup_watch_) {
    cgroup_watch_->host = nullptr;
    static_cast<void>(cgroup_watch_->events.release());  // ends the wait
    cgroup_watch_.reset();
  }
  cgroups_.close();
}

std::span<char> RunHost::buffer() {
  if (buffer_.empty()) buffer_.resize(kReadBytes);
  return buffer_;
}

void RunHost::keep_draining(UniqueFd pipe, std::weak_ptr<OutputLog> into) {
  auto drain = std::make_shared<Drain>(*this, std::move(pipe), std::move(into));
  drain->place = drains_.insert(drains_.end(), drain);
  read_on(std::move(drain));
}

void RunHost::read_on(std::shared_ptr<Drain> drain) {
  auto& pipe = drain->pipe;
  pipe.async_wait(net::posix::stream_descriptor::wait_read, [drain = std::move(drain)](boost::system::error_code) {
    if (drain->host == nullptr) return;
    const std::span<char> buffer = drain->host->buffer();
    const ssize_t n = ::read(drain->pipe.native_handle(), buffer.data(), buffer.size());
    if (n > 0) {
      if (const auto log = drain->into.lock()) log->append({buffer.data(), static_cast<std::size_t>(n)});
    }
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return read_on(drain);
    drain->host->drains_.erase(drain->place);
  });
}

void RunHost::close() {
  for (const auto& drain : drains_) {
    drain->host = nullptr;
    drain->pipe.close();
  }
  drains_.clear();
}

}  // namespace osb::execd
