#include "execd/code/prepared_kernel.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/concat.h"
#include "base/id.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "execd/code/memory_file.h"
#include "execd/run/run.h"
#include "sys/process_tree.h"
#include "sys/send_descriptor.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

// A fork that takes longer than a start has no use.
constexpr std::chrono::seconds kAnswer{2};

// Whether an interpreter reads the variable when it starts, so that setting it later has no effect. Python looks at
// PYTHONPATH and PYTHONUSERBASE at its start too; prepare.py does what they say after the fork.
bool counts_at_start(std::string_view name) {
  for (const std::string_view prefix : {"PYTHON", "LD_", "LC_", "MALLOC_", "GLIBC_"}) {
    if (name.starts_with(prefix)) return name != "PYTHONPATH" && name != "PYTHONUSERBASE";
  }
  return name == "LANG" || name == "LANGUAGE" || name == "LOCPATH";
}

// Equal where two processes would start in the same way.
std::vector<std::string> start_key(const sys::SpawnPlan& process) {
  std::vector<std::string> key;
  for (const std::string& variable : process.env) {
    if (counts_at_start(std::string_view(variable).substr(0, variable.find('=')))) key.push_back(variable);
  }
  std::ranges::sort(key);
  key.push_back(process.program);
  key.insert(key.end(), process.argv.begin(), process.argv.end());
  return key;
}

}  // namespace

struct PreparedKernel::Process {
  Process(const net::any_io_executor& executor, UniqueFd socket)
      : control(executor, socket.release()), late(executor) {}

  struct Pending {
    Done done;
    sys::CgroupPool::Lease cgroup;
  };
  net::posix::stream_descriptor control;
  net::steady_timer late;
  std::vector<std::string> key;
  sys::ProcessTree tree;
  sys::CgroupPool::Lease cgroup;
  std::deque<Pending> pending;  // in the order of the answers to come
  bool ready = false;
};

PreparedKernel::PreparedKernel(RunHost& host, const CommandEnvironment& environment, const CodeLanguage& language)
    : host_(host), environment_(environment), language_(language), ended_(host.executor()) {}

PreparedKernel::~PreparedKernel() = default;

void PreparedKernel::start() {
  if (process_ || off_) return;
  auto process = spawn();
  if (!process) {
    off_ = true;
    log_warn("kernels are started one by one: the prepared one does not start", {{"error", process.error().message}});
    return;
  }
  process_ = *process;
  arm(process_);
}

Result<std::shared_ptr<PreparedKernel::Process>> PreparedKernel::spawn() {
  Environment env = environment_.for_command({});
  sys::SpawnPlan plan;
  if (auto found = language_.set_program(env, plan); !found) return Failure(found.error());
  plan.env = to_environ(env);
  auto key = start_key(plan);
  env.erase("PYTHONPATH");
  env.erase("PYTHONUSERBASE");
  env.insert_or_assign("HOME", "/dev/null");
  const std::string id = new_hex_id();
  env.insert_or_assign(std::string(kRunIdVariable), id);
  plan.env = to_environ(env);
  plan.cwd = "/";
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) return sys::from_errno("socketpair", errno);
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const auto driver = memory_file("driver", language_.prepared_driver());
  if (!driver) return Failure(driver.error());
  plan.fds = {{kKernelSocket, theirs.get()}, {kKernelDriver, driver->get()}};
  auto started = host_.spawn(std::move(plan));
  if (!started) return Failure(started.error());

  auto process = std::make_shared<Process>(host_.executor(), std::move(ours));
  process->key = std::move(key);
  process->cgroup = std::move(started->cgroup);
  process->tree.leader = started->child.pid;
  if (const auto leader = sys::read_process(started->child.pid)) process->tree.leader_start = leader->start;
  process->tree.marker = concat(kRunIdVariable, "=", id);
  process->tree.cgroup = process->cgroup.get();
  ++processes_;
  host_.reaper().watch(started->child.pid, [self = shared_from_this(), process](sys::ExitStatus) {
    --self->processes_;
    if (self->process_ == process) {
      if (!process->ready) self->off_ = true;
      self->drop();
    }
    self->ended_.notify_all();
  });
  return process;
}

bool PreparedKernel::fork(const sys::SpawnPlan& process, std::string_view run_id, std::span<const int, 4> descriptors,
                          Done done) {
  if (!process_ || !process_->ready || process_->key != start_key(process)) return false;
  std::string wanted = concat(process.cwd, std::string_view("\0", 1), run_id);
  for (const std::string& variable : process.env) wanted.append(1, '\0').append(variable);
  const auto setup = memory_file("kernel", wanted);
  if (!setup) return false;
  std::vector<int> sent(descriptors.begin(), descriptors.end());
  sent.push_back(setup->get());
  auto cgroup = host_.cgroups().lease();
  UniqueFd entry;
  if (cgroup) {
    auto opened = sys::open_at(AT_FDCWD, cgroup->join_file(), O_WRONLY);
    if (!opened) return false;
    entry = std::move(*opened);
    sent.push_back(entry.get());
  }
  if (!sys::send_descriptors(process_->control.native_handle(), sent)) return false;
  process_->pending.push_back({std::move(done), std::move(cgroup)});
  if (process_->pending.size() == 1) expect_answer(process_);
  return true;
}

void PreparedKernel::expect_answer(const std::shared_ptr<Process>& process) {
  process->late.expires_after(kAnswer);
  process->late.async_wait([self = shared_from_this(), process](boost::system::error_code stopped) {
    if (!stopped && self->process_ == process) self->drop();
  });
}

void PreparedKernel::arm(std::shared_ptr<Process> process) {
  auto& control = process->control;
  control.async_wait(net::posix::stream_descriptor::wait_read,
                     [self = shared_from_this(), process = std::move(process)](boost::system::error_code stopped) {
                       if (stopped || self->process_ != process) return;
                       char answer[32];
                       const ssize_t n = ::recv(process->control.native_handle(), answer, sizeof answer, MSG_DONTWAIT);
                       if (n < 0 && (errno == EAGAIN || errno == EINTR)) return self->arm(process);
                       self->on_answer(process, {answer, static_cast<std::size_t>(std::max<ssize_t>(n, 0))});
                       if (self->process_ == process) self->arm(process);
                     });
}

void PreparedKernel::on_answer(const std::shared_ptr<Process>& process, std::string_view answer) {
  if (answer == "ready" && !process->ready) {
    process->ready = true;
    return;
  }
  if (answer.empty() && !process->ready) off_ = true;
  const auto pid = parse_number<pid_t>(answer);
  if (!pid || process->pending.empty()) return drop();  // it has ended, is out of date, or is not itself any more
  auto [done, cgroup] = std::move(process->pending.front());
  process->pending.pop_front();
  process->late.cancel();
  if (!process->pending.empty()) expect_answer(process);
  if (is_kernel(*pid)) {
    done(Forked{*pid, std::move(cgroup)});
  } else {
    done(std::nullopt);
  }
}

// A child of ours that belongs to nobody yet.
bool PreparedKernel::is_kernel(pid_t pid) const {
  if (pid <= 1 || host_.reaper().watches(pid)) return false;
  const auto process = sys::read_process(pid);
  return process && process->parent == ::getpid();
}

void PreparedKernel::drop() {
  const auto process = std::exchange(process_, nullptr);
  if (!process) return;
  process->late.cancel();
  process->control.close();
  host_.pool().post([process, home = host_.executor()]() mutable {
    static_cast<void>(sys::kill_tree(process->tree));
    net::post(home, [process = std::move(process)] {});  // its cgroup is given back there
  });
  for (auto& [done, cgroup] : std::exchange(process->pending, {})) done(std::nullopt);
}

net::awaitable<void> PreparedKernel::end() {
  const auto self = shared_from_this();
  off_ = true;
  drop();
  co_await ended_.wait_until([this] { return processes_ == 0; });
}

}  // namespace osb::execd
