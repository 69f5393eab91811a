#pragma once

#include <optional>
#include <variant>

#include "base/error.h"
#include "kernel/mount_overlay.h"
#include "sandboxd/launch/launch_plan.h"

namespace osb::sandboxd {

// The overlays of a root file system, ready to be mounted in a mount namespace that begins empty: `root` anywhere in
// it, `usr` on the /usr of that.
struct RootOverlays {
  kernel::Overlay root;
  std::optional<kernel::Overlay> usr;  // of the `host` image; absent: part of root
};

using RootPlan = std::variant<LayersRoot, HostRoot>;

// Before there is an overlay, so that the one of the root finds upper/usr, and as ourselves: on disk they belong to 0.
Result<void> make_usr_directories(const RootPlan& plan);
// As the FileOwner of the sandbox's root. Errors as of kernel::Overlay::prepare.
Result<RootOverlays> prepare_root_overlays(const RootPlan& plan, int userns);

const LayersRoot& layers_of(const RootPlan& plan);

}  // namespace osb::sandboxd
