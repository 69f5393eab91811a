#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "execd/file/disk_reserve.h"

namespace osb::execd {

// A mount in a session's root. Paths are absolute and clean and no link is followed on the way to `source`.
struct SessionMount {
  enum class Mode { ReadWrite, ReadOnly, Overlay };
  std::string source;
  std::string path;
  Mode mode = Mode::ReadOnly;
  bool persist = true;  // of an overlay: the file routes, diff and commit see it
};

// How a session is to be made: a request with everything decided.
struct SessionSpec {
  std::vector<SessionMount> mounts;  // parents before what lies below them
  bool private_tmp = true;           // else the sandbox's own /tmp is shared
  bool share_net = true;
  std::optional<std::uint32_t> uid;  // of the session's processes; absent: root
  std::optional<std::uint32_t> gid;
  bool user_namespace = false;    // the user and group are numbers of a user namespace, and root's outside of it
  std::uint64_t upper_bytes = 0;  // of all overlays together, and of a private /tmp
  std::uint64_t diff_bytes = 0;   // the longest diff
  DiskReserve reserve = {};       // that uploads leave free
};

std::string encode_session_spec(const SessionSpec& spec);
// The bytes come from a process of the sandbox. Code::InvalidRequest names the wrong part.
Result<SessionSpec> decode_session_spec(std::string_view bytes);

}  // namespace osb::execd
