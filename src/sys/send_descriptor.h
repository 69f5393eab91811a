#pragma once

#include <span>

#include "base/error.h"

namespace osb::sys {

// Hands descriptors to the other side of a Unix socket, with one byte to carry them. Does not wait: a fresh
// connection's buffer takes one byte at once. The caller keeps its own copies. At most kMaxDescriptors.
inline constexpr std::size_t kMaxDescriptors = 8;
Result<void> send_descriptors(int socket, std::span<const int> fds);
inline Result<void> send_descriptor(int socket, int fd) { return send_descriptors(socket, {&fd, 1}); }

}  // namespace osb::sys
