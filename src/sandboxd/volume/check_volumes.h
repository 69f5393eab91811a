#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "api/native.h"
#include "base/error.h"

namespace osb::sandboxd {

using api::native::Volume;
using api::native::VolumeKind;

inline constexpr std::uint64_t kDefaultTmpfsBytes = std::uint64_t{64} << 20;

// Checks what needs no look at the disk. The first error wins; Error::reason is the contract's:
//   VOLUME::INVALID_MOUNT_PATH  a target that is not absolute and normal ("//", ".", "..", trailing "/"), is "/", is or
//                               lies below /proc, /sys or /dev, or is taken twice
//   VOLUME::INVALID_HOST_PATH   not absolute, with "..", "//", or a trailing "/"
//   VOLUME::INVALID_PVC_NAME    not lower case letters, digits and inner hyphens, at most 253
//   VOLUME::INVALID_SUB_PATH    absolute, with a ".." component, or a sub-path of a tmpfs
Result<void> check_volumes(std::span<const Volume> specs);
Result<void> check_volume_name(std::string_view name);

// Whether `path` is `prefix` or lies below it; both absolute and normal. "/database" does not lie below "/data".
bool is_at_or_below(std::string_view path, std::string_view prefix);

}  // namespace osb::sandboxd
