#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "image/digest.h"
#include "image/layer_stream.h"

namespace osb::image {

struct UnpackOptions {
  // The expected sums; a mismatch is Code::InvalidRequest. Absent: not compared (the sums are returned anyway).
  std::optional<Digest> digest;   // of the bytes as they come, compressed or not
  std::optional<Digest> diff_id;  // of the uncompressed tar

  // Overlayfs believes trusted.* by default and user.* with its mount option userxattr.
  enum class Opaque { Trusted, User } opaque = Opaque::Trusted;

  // A layer's device nodes. Sandboxes get their /dev from elsewhere, so that nothing is missed when they are skipped.
  enum class Devices { Skip, Refuse, Create } devices = Devices::Skip;

  // Files belong to the ids that the layer says, each at most `max_id`: what a sandbox's id range can map.
  std::uint32_t max_id = 65535;

  // Of the tar, and of all files' sizes together, holes included. More is Code::TooLarge.
  std::uint64_t max_bytes = std::uint64_t{64} << 30;
  std::uint64_t max_entries = 4'000'000;
};

struct UnpackedLayer {
  Digest digest;
  Digest diff_id;
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;  // on disk, about: files in whole blocks, one block for every other entry
};

// Unpacks a layer into the open, empty directory `root`, as a lower directory for overlayfs: hard links, sparse files,
// owners, modes with setuid, times to the nanosecond, user.* attributes, ACLs and file capabilities; whiteouts become
// character devices 0/0, opaque directories an overlay attribute. Other attributes (trusted.*, security.*) are left
// out: they would speak to the kernel in the name of the image.
//
// No entry can touch anything outside `root`: names are taken as relative to it, ".." is refused, and parents are
// opened beneath it without following symbolic links (openat2). Nothing but us may change the directory meanwhile. A
// later entry of the same name replaces the earlier one. A failure leaves a partial tree behind: the caller removes it.
// Nothing is synced to disk.
//
// Blocks, needs root (CAP_CHOWN, CAP_MKNOD, CAP_SETFCAP, CAP_FOWNER, CAP_DAC_OVERRIDE). Code::InvalidRequest is the
// layer's fault and names the entry.
Result<UnpackedLayer> unpack_layer(ByteSource source, int root, const UnpackOptions& options);

}  // namespace osb::image
