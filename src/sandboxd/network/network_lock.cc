#include "sandboxd/network/network_lock.h"

#include <cerrno>
#include <sys/stat.h>

#include <fmt/format.h>

#include "sys/file_lock.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

Result<std::vector<UniqueFd>> lock_network(const NetworkConfig& config, const std::string& directory) {
  struct stat network{};
  if (::stat("/proc/self/ns/net", &network) < 0) return sys::from_errno("look at the network namespace", errno);
  if (::mkdir(directory.c_str(), 0700) < 0 && errno != EEXIST) {
    return sys::from_errno("create directory " + directory, errno);
  }
  std::vector<UniqueFd> out;
  for (const auto& [setting, value] :
       {std::pair{"table", &config.table}, std::pair{"interface_prefix", &config.interface_prefix}}) {
    auto held = sys::lock_file(fmt::format("{}/{}.{}.{}", directory, network.st_ino, setting, *value));
    if (held) {
      out.push_back(std::move(*held));
      continue;
    }
    if (held.error().code != Code::Conflict) return Failure(held.error());
    return fail(Code::Conflict, fmt::format("network.{} \"{}\": another sandboxd on this host uses it; set subnet, "
                                            "table and interface_prefix in [network] of one of them",
                                            setting, *value));
  }
  return out;
}

}  // namespace osb::sandboxd
