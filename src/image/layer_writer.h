#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"
#include "image/layer_stream.h"

namespace osb::image {

// Where a produced stream goes: takes all bytes or fails, which ends the production with that error. May block.
using ByteSink = std::move_only_function<Result<void>(std::string_view)>;

// The kind of a directory tree.
enum class TreeKind {
  Plain,    // an ordinary root directory
  Overlay,  // an upper or lower directory of overlayfs: character devices 0/0 are whiteouts, trusted.overlay.opaque
            // hides what lies below
};

// Docker unpacks sparse files but cannot give such a layer away again (its tar-split fails on them).
enum class Holes {
  Keep,
  Fill,  // with zeros, up to 1 GiB for each file; those of larger ones are kept
};

struct WrittenLayer {
  Digest diff_id;           // of the bytes written
  std::uint64_t bytes = 0;  // of the tar
  std::uint64_t entries = 0;
  std::uint64_t sockets = 0;  // left out: they mean nothing without the process that made them
};

// Writes the tree below the open directory `root` as an uncompressed layer: a tar in pax format with owners, modes,
// times to the nanosecond, user.* attributes, ACLs and file capabilities, hard links, holes of sparse files, symbolic
// links, pipes and devices. Whiteouts and opaque directories of an Overlay tree become ".wh." names. unpack_layer makes
// the same tree of it again.
//
// The same tree gives the same bytes (names are sorted). Other file systems mounted below are not entered: their mount
// points are empty directories. Symbolic links are never followed, so that a tree that another process changes
// meanwhile gives at worst a strange layer; a file that shrinks while it is read is Code::Conflict. An Overlay tree
// with redirected directories or metadata-only copies is Code::Unsupported: it cannot be read without its lower layers
// (mount with redirect_dir=off,metacopy=off). Names that a layer cannot hold (".wh.") are Code::InvalidRequest.
//
// Blocks; needs root (CAP_DAC_READ_SEARCH, CAP_SYS_ADMIN for trusted.*).
Result<WrittenLayer> write_layer(int root, TreeKind kind, ByteSink sink, Holes holes = Holes::Keep);

// The same as something to read from, for LayerStore::add(): a thread writes while the source is read. Dropping the
// source ends it.
ByteSource layer_source(UniqueFd root, TreeKind kind);

}  // namespace osb::image
