#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernel/limited_cgroup.h"

namespace osb::sandboxd {

// The cgroup of one sandbox. kernel::LimitedCgroup says what the calls promise; tests have an implementation of their
// own. It names the cgroup: the cgroup stays when the object goes.
class SandboxCgroup {
 public:
  virtual ~SandboxCgroup() = default;
  virtual std::string v2_directory() const = 0;
  virtual kernel::LimitedCgroup::StatFiles stat_files() const = 0;
  virtual Result<kernel::CgroupJoin> open_join() const = 0;
  virtual Result<void> freeze(bool on) const = 0;
  virtual Result<bool> frozen() const = 0;
  virtual Result<void> kill() const = 0;
  virtual Result<bool> wait_empty(std::chrono::milliseconds limit) const = 0;
  virtual Result<void> remove() const = 0;
  virtual Result<kernel::CgroupUsage> usage() const = 0;
  virtual Result<std::uint64_t> oom_kills() const = 0;
};

struct NewCgroup {
  std::unique_ptr<SandboxCgroup> group;
  kernel::CgroupJoin join = {UniqueFd(), {}};
  std::vector<std::pair<std::string, UniqueFd>> view{};
  std::vector<std::pair<std::string, UniqueFd>> hidden_stats{};  // LimitedCgroup::open_hidden_stats()
};

// All cgroups of sandboxes, by the sandboxes' ids. Any thread.
class SandboxCgroups {
 public:
  virtual ~SandboxCgroups() = default;
  virtual Result<NewCgroup> create(const std::string& id, const kernel::Limits& limits) const = 0;
  virtual Result<std::unique_ptr<SandboxCgroup>> open_existing(const std::string& id) const = 0;  // Code::NotFound
  virtual std::vector<std::string> view_names() const = 0;
  virtual std::vector<std::string> list() const = 0;
};

class KernelCgroups final : public SandboxCgroups {
 public:
  explicit KernelCgroups(kernel::LimitedCgroups cgroups) : cgroups_(std::move(cgroups)) {}
  Result<NewCgroup> create(const std::string& id, const kernel::Limits& limits) const override;
  Result<std::unique_ptr<SandboxCgroup>> open_existing(const std::string& id) const override;
  std::vector<std::string> view_names() const override { return cgroups_.view_names(); }
  std::vector<std::string> list() const override { return cgroups_.list(); }

 private:
  kernel::LimitedCgroups cgroups_;
};

}  // namespace osb::sandboxd
