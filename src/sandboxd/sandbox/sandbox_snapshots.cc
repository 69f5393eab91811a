#include <algorithm>
#include <ranges>

#include "base/log.h"
#include "sandboxd/sandbox/sandbox_entry.h"
#include "sandboxd/snapshot/snapshot_export.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

using api::native::State;

net::awaitable<Result<api::native::Snapshot>> SandboxManager::snapshot(std::string id, std::string snapshot_id) {
  if (!api::native::is_valid_id(snapshot_id)) {
    co_return fail(Code::InvalidRequest, "/id: '" + snapshot_id + "' cannot be the id of a snapshot");
  }
  auto found = find(id);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  const Entry::Guard guard = co_await Entry::lock(entry);
  const State state = entry->record.status.state;
  if (state != State::Running && state != State::Paused && state != State::Exited) {
    co_return fail(Code::Conflict, "sandbox " + id + " is " + std::string(to_string(state)));
  }
  SnapshotBase base{entry->record.status.image, entry->record.image_config, entry->record.layers,
                    entry->record.snapshots};
  auto leases = images_.lease(base.diff_ids);
  if (!leases) co_return Failure(leases.error());
  FreezeHooks hooks{[] { return Result<void>(); }, [] { return Result<void>(); }};
  if (state == State::Running) {
    hooks.freeze = [&] { return entry->live->cgroup->freeze(true); };
    hooks.thaw = [&] { return entry->live->cgroup->freeze(false); };
  }
  CaptureTimes times;
  auto captured = co_await pool_.run([&]() -> Result<SnapshotInfo> {
    auto upper = sys::open_at(AT_FDCWD, builder_.directory(id) + "/upper", O_RDONLY | O_DIRECTORY);
    if (!upper) return Failure(upper.error());
    return snapshots_.capture(snapshot_id, base, upper->get(), hooks, &times);
  });
  if (!captured) co_return with_context("snapshot of sandbox " + id, captured.error());
  snapshot_leases_[snapshot_id] = std::move(*leases);
  log_info("snapshot made", {{"id", snapshot_id},
                             {"sandbox", id},
                             {"bytes", captured->bytes},
                             {"ms", times.total_ms},
                             {"frozen_ms", times.frozen_ms}});
  co_return inspect_snapshot(snapshot_id);
}

namespace {

api::native::Snapshot describe(const SnapshotInfo& info) {
  return {.id = info.id,
          .sandbox = "",
          .image = info.base.image,
          .bytes = info.bytes,
          .created_at = Timestamp(std::chrono::seconds(info.created))};
}

}  // namespace

std::vector<api::native::Snapshot> SandboxManager::list_snapshots() const {
  std::vector<api::native::Snapshot> out;
  for (const SnapshotInfo& info : snapshots_.list()) out.push_back(describe(info));
  return out;
}

Result<api::native::Snapshot> SandboxManager::inspect_snapshot(const std::string& id) const {
  auto info = snapshots_.get(id);
  if (!info) return Failure(info.error());
  return describe(*info);
}

net::awaitable<Result<ImageService::Turn>> SandboxManager::turn_to_export_snapshot(std::string id) {
  auto info = snapshots_.get(id);
  if (!info) co_return Failure(info.error());
  if (info->base.image == kHostImage) {
    co_return fail(Code::Unsupported,
                   "snapshot " + id + " stands on the host's own /usr, which an archive would not contain");
  }
  co_return co_await images_.turn_to_send();
}

net::awaitable<Result<void>> SandboxManager::export_snapshot(std::string id, http::BodyWriter& body,
                                                             ImageService::Turn turn) {
  auto base = snapshot_base(id);
  if (!base) co_return Failure(base.error());
  // The leases of `base` keep the image's layers; a removal of the snapshot meanwhile ends the archive with an error.
  co_return co_await images_.send_archive(
      "snapshot " + id,
      [this, id, base = std::move(*base)](image::ByteSink sink) -> Result<void> {
        std::vector<std::filesystem::path> layers;
        for (const auto& layer : std::views::reverse(base.image.layers)) layers.push_back(layer.root());
        auto done = sandboxd::export_snapshot(snapshots_, id, layers, {}, std::move(sink));
        if (!done) return Failure(done.error());
        return {};
      },
      body, std::move(turn));
}

net::awaitable<Result<void>> SandboxManager::remove_snapshot(std::string id) {
  const auto users = static_cast<std::size_t>(std::ranges::count_if(entries_, [&](const auto& each) {
    return std::ranges::find(each.second->record.snapshots, id) != each.second->record.snapshots.end();
  }));
  auto removed = co_await pool_.run([&] { return snapshots_.remove(id, users); });
  // Hidden ones may still be needed by others, which hold the same leases.
  if (removed) snapshot_leases_.erase(id);
  co_return removed;
}

Result<SandboxBase> SandboxManager::snapshot_base(const std::string& id) const {
  auto info = snapshots_.get(id);
  if (!info) return Failure(info.error());
  auto layers = snapshots_.layers(id);
  if (!layers) return Failure(layers.error());
  auto config = image::decode_image_config(info->base.config);
  if (!config) return with_context("image configuration of snapshot " + id, config.error());
  auto leases = images_.lease(info->base.diff_ids);
  if (!leases) return Failure(leases.error());
  std::ranges::reverse(*leases);
  SandboxBase out;
  out.image.kind = info->base.image == kHostImage ? ResolvedImage::Kind::Host : ResolvedImage::Kind::Layers;
  out.image.name = info->base.image;
  out.image.config = std::move(*config);
  out.image.layers = std::move(*leases);
  for (const auto& layer : *layers) out.snapshot_layers.push_back(layer.string());
  return out;
}

}  // namespace osb::sandboxd
