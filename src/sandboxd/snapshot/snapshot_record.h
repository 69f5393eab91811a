#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "sandboxd/snapshot/snapshot_store.h"

namespace osb::sandboxd {

// snapshot.json, and back.
std::string encode_snapshot(const SnapshotInfo& info);
Result<SnapshotInfo> decode_snapshot(std::string_view text);

}  // namespace osb::sandboxd
