#include "sandboxd/sandbox/sandbox_snapshots.h"

#include <algorithm>
#include <fcntl.h>
#include <ranges>

#include "base/log.h"
#include "sandboxd/snapshot/snapshot_export.h"
#include "sys/syscall.h"

namespace osb::sandboxd {

using api::native::State;

namespace {

api::native::Snapshot describe(const SnapshotInfo& info) {
  return {.id = info.id,
          .sandbox = "",
          .image = info.base.image,
          .bytes = info.bytes,
          .created_at = Timestamp(std::chrono::seconds(info.created))};
}

}  // namespace

void SandboxSnapshots::recover() {
  for (const SnapshotInfo& snapshot : store_.list()) {
    auto leases = images_.lease(snapshot.base.diff_ids);
    if (!leases) {
      log_error("snapshot without its image", {{"id", snapshot.id}, {"error", leases.error().message}});
      continue;
    }
    leases_[snapshot.id] = std::move(*leases);
  }
}

net::awaitable<Result<api::native::Snapshot>> SandboxSnapshots::capture(std::string sandbox, std::string id) {
  if (!api::native::is_valid_id(id)) {
    co_return fail(Code::InvalidRequest, "/id: '" + id + "' cannot be the id of a snapshot");
  }
  auto found = context_.table.find(sandbox);
  if (!found) co_return Failure(found.error());
  const EntryPtr entry = *found;
  const EntryGuard guard = co_await EntryGuard::lock(entry);
  const State state = entry->record.status.state;
  if (state != State::Running && state != State::Paused && state != State::Exited) {
    co_return fail(Code::Conflict, "sandbox " + sandbox + " is " + std::string(to_string(state)));
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
  auto captured = co_await context_.pool.run([&]() -> Result<SnapshotInfo> {
    auto upper = sys::open_at(AT_FDCWD, context_.config().tree(sandbox) + "/upper", O_RDONLY | O_DIRECTORY);
    if (!upper) return Failure(upper.error());
    return store_.capture(id, base, upper->get(), hooks, &times);
  });
  if (!captured) co_return with_context("snapshot of sandbox " + sandbox, captured.error());
  leases_[id] = std::move(*leases);
  log_info("snapshot made", {{"id", id},
                             {"sandbox", sandbox},
                             {"bytes", captured->bytes},
                             {"ms", times.total_ms},
                             {"frozen_ms", times.frozen_ms}});
  co_return inspect(id);
}

std::vector<api::native::Snapshot> SandboxSnapshots::list() const {
  std::vector<api::native::Snapshot> out;
  for (const SnapshotInfo& info : store_.list()) out.push_back(describe(info));
  return out;
}

Result<api::native::Snapshot> SandboxSnapshots::inspect(const std::string& id) const {
  auto info = store_.get(id);
  if (!info) return Failure(info.error());
  return describe(*info);
}

net::awaitable<Result<ImageService::TransferPermit>> SandboxSnapshots::send_permit(std::string id) {
  auto info = store_.get(id);
  if (!info) co_return Failure(info.error());
  if (info->base.image == kHostImage) {
    co_return fail(Code::Unsupported,
                   "snapshot " + id + " stands on the host's own /usr, which an archive would not contain");
  }
  co_return co_await images_.send_permit();
}

net::awaitable<Result<void>> SandboxSnapshots::send(std::string id, http::BodyWriter& body,
                                                    ImageService::TransferPermit permit) {
  auto found = base(id);
  if (!found) co_return Failure(found.error());
  // The leases of `base` keep the image's layers; a removal of the snapshot meanwhile ends the archive with an error.
  co_return co_await images_.send_archive(
      "snapshot " + id,
      [this, id, base = std::move(*found)](image::ByteSink sink) -> Result<void> {
        std::vector<std::filesystem::path> layers;
        for (const auto& layer : std::views::reverse(base.image.layers)) layers.push_back(layer.root());
        auto done = sandboxd::export_snapshot(store_, id, layers, {}, std::move(sink));
        if (!done) return Failure(done.error());
        return {};
      },
      body, std::move(permit));
}

net::awaitable<Result<void>> SandboxSnapshots::remove(std::string id) {
  const auto users = static_cast<std::size_t>(std::ranges::count_if(context_.table.entries(), [&](const auto& each) {
    return std::ranges::find(each.second->record.snapshots, id) != each.second->record.snapshots.end();
  }));
  auto removed = co_await context_.pool.run([&] { return store_.remove(id, users); });
  // Hidden ones may still be needed by others, which hold the same leases.
  if (removed) leases_.erase(id);
  co_return removed;
}

Result<SandboxBase> SandboxSnapshots::base(const std::string& id) const {
  auto info = store_.get(id);
  if (!info) return Failure(info.error());
  auto layers = store_.layers(id);
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
  out.snapshots = std::move(info->base.snapshots);
  out.snapshots.push_back(id);
  return out;
}

}  // namespace osb::sandboxd
