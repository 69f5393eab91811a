#pragma once

#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::kernel {

// A block device whose blocks are those of a file. It lasts as long as it is open or mounted. Needs root.
struct LoopDevice {
  std::string path;  // "/dev/loop3"
  UniqueFd fd;
};

// The device of the file: the one that has it already (its size follows the file's), or a free one. Nodes that are
// missing in /dev are made. Code::Unsupported: the kernel has no loop devices.
Result<LoopDevice> attach_loop_device(int file);
// A free one, for a file that has none: the others are not searched.
Result<LoopDevice> attach_new_loop_device(int file);

// Whether attach_loop_device() can work on this host. Changes nothing but missing nodes of /dev.
Result<void> probe_loop_devices();

}  // namespace osb::kernel
