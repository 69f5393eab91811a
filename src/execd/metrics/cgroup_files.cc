#include "execd/metrics/cgroup_files.h"

#include <fcntl.h>

#include "base/log.h"
#include "execd/init/inherited_fd.h"

namespace osb::execd {

std::shared_ptr<const sys::CgroupFiles> open_cgroup_files(const std::map<std::string, std::string>& paths) {
  if (paths.empty()) return nullptr;
  auto out = std::make_shared<sys::CgroupFiles>();
  for (const auto& [name, path] : paths) {
    if (auto file = open_given(path, O_RDONLY)) {
      out->emplace(name, std::move(*file));
    } else {
      log_warn("cgroup file not opened", {{"name", name}, {"error", file.error().message}});
    }
  }
  return out;
}

}  // namespace osb::execd
