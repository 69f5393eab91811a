#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/lifecycle_query.h"
#include "api/lifecycle_sandbox.h"
#include "base/error.h"
#include "base/time.h"

namespace osb::api {

namespace snapshot_state {
inline constexpr std::string_view kCreating = "Creating";
inline constexpr std::string_view kReady = "Ready";
inline constexpr std::string_view kFailed = "Failed";
inline constexpr std::string_view kDeleting = "Deleting";
}  // namespace snapshot_state

struct CreateSnapshot {
  std::string name;  // "" is none
};
// The body may be empty or null; a name must not be "" (422).
Result<CreateSnapshot> decode_create_snapshot(std::string_view body);

struct SnapshotView {
  std::string_view id;
  std::string_view sandbox_id;
  std::string_view name;
  const Status* status = nullptr;
  Timestamp created_at{};
};
std::string encode_snapshot(const SnapshotView& snapshot);
std::string encode_snapshot_list(std::span<const SnapshotView> items, const PageInfo& page);

}  // namespace osb::api
