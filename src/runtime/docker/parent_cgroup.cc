#include "runtime/docker/parent_cgroup.h"

#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/limited_cgroup.h"
#include "runtime/docker/engine_json.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::runtime {
namespace {

constexpr const char* kAdvice = "; make a cgroup with limits and name it in [docker] cgroup_parent (docs/limits.md)";

Result<void> make(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0755) == 0 || errno == EEXIST) return {};
  return sys::from_errno("make " + directory, errno);
}

// `word` is the file's way to say "no limit".
Result<void> set(const std::string& file, std::int64_t limit, const char* word) {
  return sys::write_text(file, limit == 0 ? word : std::to_string(limit));
}

Result<void> make_v2(const std::string& root, const config::Ceilings& ceilings) {
  const std::string parent = root + kOwnParent;
  if (auto made = make(parent); !made) return made;
  // Where the kernel counts huge pages, sandboxes get none; few hosts have any.
  if (sys::write_text(root + "/cgroup.subtree_control", "+hugetlb")) kernel::forbid_huge_pages(parent, ".max");
  if (auto enabled = sys::write_text(root + "/cgroup.subtree_control", "+memory +pids"); !enabled) return enabled;
  if (auto limited = set(parent + "/memory.max", ceilings.total_memory_bytes, "max"); !limited) return limited;
  return set(parent + "/pids.max", ceilings.total_pids, "max");
}

Result<void> make_v1(const std::string& root, const config::Ceilings& ceilings) {
  const std::string memory = root + "/memory" + kOwnParent, pids = root + "/pids" + kOwnParent;
  for (const std::string& each : {memory, pids}) {
    if (auto made = make(each); !made) return made;
  }
  const std::string huge_pages = root + "/hugetlb";
  if (::access(huge_pages.c_str(), F_OK) == 0 && make(huge_pages + kOwnParent)) {
    kernel::forbid_huge_pages(huge_pages + kOwnParent, ".limit_in_bytes");
  }
  if (auto limited = set(memory + "/memory.limit_in_bytes", ceilings.total_memory_bytes, "-1"); !limited)
    return limited;
  return set(pids + "/pids.max", ceilings.total_pids, "max");
}

}  // namespace

ParentCgroup prepare_parent_cgroup(const std::string& named, const boost::json::value& info, bool local,
                                   const config::Ceilings& ceilings, const std::string& root) {
  if (!named.empty()) return {named, ""};
  if (ceilings.total_memory_bytes == 0 && ceilings.total_pids == 0) return {"", "[docker] total_* are 0"};
  const auto cannot = [](const std::string& why) { return ParentCgroup{"", why + kAdvice}; };
  if (!local) return cannot("the engine is on another machine");
  if (engine::text(info, {"CgroupDriver"}) != "cgroupfs") return cannot("systemd makes the engine's cgroups");
  if (::geteuid() != 0) return cannot("the server is not root");
  const bool v2 = ::access((root + "/cgroup.controllers").c_str(), F_OK) == 0;
  if (auto made = v2 ? make_v2(root, ceilings) : make_v1(root, ceilings); !made) return cannot(made.error().message);
  return {kOwnParent, ""};
}

}  // namespace osb::runtime
