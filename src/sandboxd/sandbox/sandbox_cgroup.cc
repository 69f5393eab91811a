#include "sandboxd/sandbox/sandbox_cgroup.h"

#include "base/log.h"

namespace osb::sandboxd {
namespace {

class KernelCgroup final : public SandboxCgroup {
 public:
  explicit KernelCgroup(kernel::LimitedCgroup group) : group_(std::move(group)) {}
  std::string v2_directory() const override { return group_.v2_directory(); }
  kernel::LimitedCgroup::StatFiles stat_files() const override { return group_.stat_files(); }
  Result<kernel::CgroupJoin> open_join() const override { return group_.open_join(); }
  Result<void> freeze(bool on) const override { return group_.freeze(on); }
  Result<bool> frozen() const override { return group_.frozen(); }
  Result<void> kill() const override { return group_.kill(); }
  Result<bool> wait_empty(std::chrono::milliseconds limit) const override { return group_.wait_empty(limit); }
  Result<void> remove() const override { return group_.remove(); }
  Result<kernel::CgroupUsage> usage() const override { return group_.usage(); }
  Result<std::uint64_t> oom_kills() const override { return group_.oom_kills(); }

 private:
  kernel::LimitedCgroup group_;
};

}  // namespace

Result<NewCgroup> KernelCgroups::create(const std::string& id, const kernel::Limits& limits) const {
  auto group = cgroups_.create(id, limits);
  if (!group) return Failure(group.error());
  auto join = group->open_join();
  auto view = join ? group->open_view() : Failure(join.error());
  if (view) {
    auto hidden = group->open_hidden_stats();
    return NewCgroup{std::make_unique<KernelCgroup>(std::move(*group)), std::move(*join), std::move(*view),
                     std::move(hidden)};
  }
  if (auto removed = group->remove(); !removed) log_error("cgroup left", {{"error", removed.error().message}});
  return Failure(view.error());
}

Result<std::unique_ptr<SandboxCgroup>> KernelCgroups::open_existing(const std::string& id) const {
  auto group = cgroups_.open_existing(id);
  if (!group) return Failure(group.error());
  return std::make_unique<KernelCgroup>(std::move(*group));
}

}  // namespace osb::sandboxd
