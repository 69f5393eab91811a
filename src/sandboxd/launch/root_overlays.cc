#include "sandboxd/launch/root_overlays.h"

#include <cerrno>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "sandboxd/launch/host_mask.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

constexpr const char* kHostUsr = "/usr";

Result<kernel::Overlay> prepare_usr(const LayersRoot& layers, int userns) {
  std::vector<std::string> lower;
  for (const std::string& layer : layers.lower) {
    if (&layer == &layers.lower.back()) break;  // the skeleton: its /usr is a mount point
    std::string usr = layer + "/usr";
    struct stat st{};
    if (::lstat(usr.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) lower.push_back(std::move(usr));
  }
  lower.push_back(kHostUsr);
  return kernel::Overlay::prepare(
      {.lower = lower, .upper = layers.upper + "/usr", .work = layers.work + "/usr", .userns = userns}, 1);
}

}  // namespace

const LayersRoot& layers_of(const RootPlan& plan) {
  const auto* host = std::get_if<HostRoot>(&plan);
  return host != nullptr ? host->layers : std::get<LayersRoot>(plan);
}

Result<void> make_usr_directories(const RootPlan& plan) {
  const auto* host = std::get_if<HostRoot>(&plan);
  if (host == nullptr) return {};
  for (const std::string& parent : {host->layers.upper, host->layers.work}) {
    const std::string directory = parent + "/usr";
    if (::mkdir(directory.c_str(), 0755) < 0 && errno != EEXIST) return sys::from_errno("make " + directory, errno);
  }
  return {};
}

Result<RootOverlays> prepare_root_overlays(const RootPlan& plan, int userns) {
  const LayersRoot& layers = layers_of(plan);
  std::vector<std::string> lower = layers.lower;
  std::erase_if(lower, [](const std::string& layer) { return layer.contains(kUsrMask); });
  auto root = kernel::Overlay::prepare({.lower = lower, .upper = layers.upper, .work = layers.work, .userns = userns});
  if (!root) return Failure(root.error());
  RootOverlays out{std::move(*root), std::nullopt};
  if (std::holds_alternative<HostRoot>(plan)) {
    auto usr = prepare_usr(layers, userns);
    if (!usr) return Failure(usr.error());
    out.usr = std::move(*usr);
  }
  return out;
}

}  // namespace osb::sandboxd
