#pragma once

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <signal.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "sandboxd/sandbox/host_parts.h"
#include "sandboxd/sandbox/sandbox_plan.h"
#include "sys/pidfd.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sandboxd::testing {

// A configuration below `directory`. The skeleton of `host` sandboxes is there already, and empty: no test looks into
// it.
inline SandboxConfig test_config(const std::filesystem::path& directory) {
  SandboxConfig config;
  config.state_directory = (directory / "state").string();
  config.run_directory = (directory / "run").string();
  config.execd = "/bin/true";
  const std::string boot = sys::read_text("/proc/sys/kernel/random/boot_id").value_or("").substr(0, 36);
  std::filesystem::create_directories(directory / "state/host" / boot);
  return config;
}

// A host for tests: slots, firewall, cgroups and volumes that only take notes, and processes that are real but do
// nothing except answer execd's ping. It outlives daemons as a kernel does. Any call can be told to fail.
class FakeHost final : public Slots, public SlotRules, public Volumes {
 public:
  ~FakeHost() override {
    for (const auto& [id, group] : groups_) kill_all(group);
  }

  HostParts parts(BlockingPool& pool, const Clock& clock = system_clock()) {
    return {*this, *this, cgroups_, *this, pool, clock, [this](LaunchPlan plan) { return launch(std::move(plan)); }};
  }

  // The nth call of that name fails from now on, once.
  void fail_call(std::string_view name, int nth = 1) {
    failing_ = name;
    countdown_ = nth;
  }
  bool execd_answers = true;

  // Nothing of the host is in use.
  bool unused() const {
    const std::lock_guard lock(mutex_);
    return slots_.empty() && refused_.empty() && ports_.empty() && groups_.empty() && volumes_.empty() &&
           holds_.use_count() == 1;
  }
  std::string describe() const {
    const std::lock_guard lock(mutex_);
    return fmt::format("slots {}, refused {}, ports {}, cgroups {}, volumes {}, holds {}", slots_.size(),
                       refused_.size(), ports_.size(), groups_.size(), volumes_.size(), holds_.use_count() - 1);
  }

  struct Group {
    std::vector<pid_t> processes;
    bool frozen = false;
  };
  Group* group(const std::string& id) {
    const auto found = groups_.find(id);
    return found == groups_.end() ? nullptr : &found->second;
  }
  // Leaves the process as a zombie, as a kernel does whose daemon has not reaped it.
  void end_process(const std::string& id) {
    kill_all(groups_.at(id));
    siginfo_t ended{};
    for (const pid_t pid : groups_.at(id).processes) ::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT);
  }
  const std::set<unsigned>& slots() const { return slots_; }
  const std::set<unsigned>& refused() const { return refused_; }
  const std::map<std::uint16_t, unsigned>& ports() const { return ports_; }
  std::set<std::string>& volumes() { return volumes_; }
  // The firewall and the counts of slots and volumes are the daemon's own: they go with it.
  void end_daemon() {
    slots_.clear();
    refused_.clear();
    ports_.clear();
  }

  // Slots
  Result<Slot> take(NetworkMode mode) override {
    if (auto ok = call("take slot"); !ok) return Failure(ok.error());
    const std::lock_guard lock(mutex_);
    unsigned index = 1;
    while (slots_.contains(index)) ++index;
    return make_slot(index, mode);
  }
  Result<Slot> adopt(unsigned index, NetworkMode mode, pid_t, SlotHolder) override {
    if (auto ok = call("adopt slot"); !ok) return Failure(ok.error());
    const std::lock_guard lock(mutex_);
    return make_slot(index, mode);
  }
  void give_back(Slot slot, bool) override {
    const std::lock_guard lock(mutex_);
    slots_.erase(slot.index);
    refused_.erase(slot.index);
  }
  Counts counts() const override { return {}; }
  Result<void> limit_bandwidth(Slot&, const Bandwidth& limit) override {
    if (auto ok = call("limit bandwidth"); !ok) return ok;
    const std::lock_guard lock(mutex_);
    bandwidth_ = limit;
    return {};
  }
  Bandwidth bandwidth() const { return bandwidth_; }  // of the last call

  // SlotRules
  Result<void> allow_resolvers(const std::vector<std::uint32_t>&) override { return {}; }
  Result<void> refuse(unsigned slot) override {
    if (auto ok = call("refuse"); !ok) return ok;
    const std::lock_guard lock(mutex_);
    refused_.insert(slot);
    return {};
  }
  Result<void> accept(unsigned slot) override {
    const std::lock_guard lock(mutex_);
    refused_.erase(slot);
    return {};
  }
  Result<std::uint16_t> publish(PublishedPort port) override {
    if (auto ok = call("publish"); !ok) return Failure(ok.error());
    const std::lock_guard lock(mutex_);
    ports_[port.host_port] = port.slot;
    return port.host_port;
  }
  Result<void> unpublish_all(unsigned slot) override {
    const std::lock_guard lock(mutex_);
    std::erase_if(ports_, [&](const auto& each) { return each.second == slot; });
    return {};
  }

  // Volumes
  Result<PreparedVolumes> prepare(std::span<const Volume> specs, int, std::uint32_t) override {
    if (auto ok = call("prepare volumes"); !ok) return Failure(ok.error());
    const std::lock_guard lock(mutex_);
    PreparedVolumes out;
    for (const Volume& each : specs) {
      if (!volumes_.insert(each.source).second) continue;
      out.created.push_back(each.source);
      if (each.delete_with_sandbox) out.to_delete.push_back(each.source);
    }
    if (!specs.empty()) out.in_use = holds_;
    return out;
  }
  std::shared_ptr<void> hold(std::span<const std::string> names) override { return names.empty() ? nullptr : holds_; }
  Result<std::vector<std::string>> list() const override {
    if (auto ok = call("list volumes"); !ok) return Failure(ok.error());
    const std::lock_guard lock(mutex_);
    return std::vector<std::string>(volumes_.begin(), volumes_.end());
  }
  Result<void> remove(const std::string& name, std::size_t) override {
    const std::lock_guard lock(mutex_);
    if (volumes_.erase(name) == 0) return fail(Code::NotFound, "no volume " + name);
    return {};
  }

 private:
  class Cgroup final : public SandboxCgroup {
   public:
    Cgroup(FakeHost& host, std::string id) : host_(host), id_(std::move(id)) {}
    std::string v2_directory() const override { return ""; }
    kernel::LimitedCgroup::StatFiles stat_files() const override { return {}; }
    Result<kernel::CgroupJoin> open_join() const override { return kernel::CgroupJoin(); }
    Result<void> freeze(bool on) const override {
      if (auto ok = host_.call("freeze"); !ok) return ok;
      const std::lock_guard lock(host_.mutex_);
      host_.groups_.at(id_).frozen = on;
      return {};
    }
    Result<bool> frozen() const override { return host_.groups_.at(id_).frozen; }
    Result<void> kill() const override {
      const std::lock_guard lock(host_.mutex_);
      if (const auto found = host_.groups_.find(id_); found != host_.groups_.end()) host_.kill_all(found->second);
      return {};
    }
    Result<bool> wait_empty(std::chrono::milliseconds) const override { return true; }
    Result<void> remove() const override {
      const std::lock_guard lock(host_.mutex_);
      host_.groups_.erase(id_);
      return {};
    }
    Result<kernel::CgroupUsage> usage() const override { return kernel::CgroupUsage{}; }
    Result<std::uint64_t> oom_kills() const override { return std::uint64_t{0}; }

   private:
    FakeHost& host_;
    const std::string id_;
  };

  class Cgroups final : public SandboxCgroups {
   public:
    explicit Cgroups(FakeHost& host) : host_(host) {}
    Result<NewCgroup> create(const std::string& id, const kernel::Limits&) const override {
      if (auto ok = host_.call("create cgroup"); !ok) return Failure(ok.error());
      const std::lock_guard lock(host_.mutex_);
      host_.groups_[id];
      return NewCgroup{std::make_unique<Cgroup>(host_, id)};
    }
    Result<std::unique_ptr<SandboxCgroup>> open_existing(const std::string& id) const override {
      const std::lock_guard lock(host_.mutex_);
      if (!host_.groups_.contains(id)) return fail(Code::NotFound, "no cgroup " + id);
      return std::make_unique<Cgroup>(host_, id);
    }
    std::vector<std::string> view_names() const override { return {}; }
    std::vector<std::string> list() const override {
      const std::lock_guard lock(host_.mutex_);
      std::vector<std::string> out;
      for (const auto& [id, group] : host_.groups_) out.push_back(id);
      return out;
    }

   private:
    FakeHost& host_;
  };

  Result<void> call(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    if (name != failing_ || --countdown_ > 0) return {};
    failing_ = "";
    return fail(Code::Internal, "told to fail: " + std::string(name));
  }
  Slot make_slot(unsigned index, NetworkMode mode) {
    slots_.insert(index);
    Slot slot;
    slot.index = index;
    slot.mode = mode;
    slot.id_base = 100'000 + index * 65'536;
    if (mode == NetworkMode::Bridge) slot.address = fmt::format("10.90.0.{}", index);
    return slot;
  }

  static void kill_all(const Group& group) {
    for (const pid_t pid : group.processes) ::kill(pid, SIGKILL);
  }

  // A process that answers every request with 200, in the cgroup that is named after the sandbox.
  Result<Launched> launch(LaunchPlan plan) {
    if (auto ok = call("launch"); !ok) return Failure(ok.error());
    const auto listener = std::ranges::find(plan.fds, kListenFd, &std::pair<int, int>::first)->second;
    const bool answers = execd_answers;
    const pid_t pid = ::fork();
    if (pid < 0) return sys::from_errno("fork", errno);
    if (pid == 0) serve(listener, answers);
    auto pidfd = sys::open_pidfd(pid);
    if (!pidfd) return Failure(pidfd.error());
    const std::lock_guard lock(mutex_);
    groups_.at(plan.hostname).processes.push_back(pid);
    return Launched{pid, std::move(*pidfd)};
  }

  [[noreturn]] static void serve(int listener, bool answers) {
    ::dup2(listener, 3);
    ::close_range(4, ~0U, 0);
    if (!answers) {
      for (;;) ::pause();
    }
    constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for (char request[4096];;) {
      const int peer = ::accept(3, nullptr, nullptr);
      if (peer < 0) ::_exit(1);
      if (::read(peer, request, sizeof request) > 0) (void)!::write(peer, kAnswer.data(), kAnswer.size());
      ::close(peer);
    }
  }

  mutable std::mutex mutex_;  // what follows
  mutable std::string failing_;
  mutable int countdown_ = 0;
  std::set<unsigned> slots_, refused_;
  Bandwidth bandwidth_;
  std::map<std::uint16_t, unsigned> ports_;  // host port: slot
  std::map<std::string, Group> groups_;
  std::set<std::string> volumes_;
  std::shared_ptr<int> holds_ = std::make_shared<int>(0);
  Cgroups cgroups_{*this};
};

}  // namespace osb::sandboxd::testing
