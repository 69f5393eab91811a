#include "sandboxd/sandbox/reservation.h"

#include <algorithm>

namespace osb::sandboxd {

PublishedPort published_port(const api::native::PublishedPort& port, unsigned slot) {
  return {.protocol = port.protocol == "udp" ? Protocol::Udp : Protocol::Tcp,
          .host_port = port.host_port,
          .host_only = false,
          .slot = slot,
          .port = port.port};
}

Reservation::Reservation(const ReservationParts& parts, const SandboxPlan& plan, SandboxRecord& record)
    : parts_(parts),
      plan_(plan),
      record_(record),
      directory_(parts.config.directory(plan.id)),
      pending_cgroup_(parts.host.pool, [this] { return parts_.host.cgroups.create(plan_.id, plan_.limits); }) {}

Reservation::~Reservation() {
  if (committed_) return;
  (void)wait_for_cgroup();
  // Nothing may be in the slot when it is given back.
  stage_.reset();
  mounts_.clear();
  record_.volumes_to_delete = live_.new_volumes;
  parts_.teardown.end(record_, std::move(live_));
  parts_.teardown.erase(record_);
}

Result<void> Reservation::take() {
  if (auto taken = take_root(); !taken) return taken;
  record_.slot = live_.slot->index;
  record_.status.address = live_.slot->address;
  if (plan_.bandwidth.limited()) {
    if (auto limited = parts_.host.slots.limit_bandwidth(*live_.slot, plan_.bandwidth); !limited) return limited;
  }
  // Before the first process.
  if (record_.network_policy) {
    if (parts_.host.policies == nullptr) return fail(Code::Unsupported, "this host enforces no network policies");
    auto enforced =
        parts_.host.policies->add(plan_.id, live_.slot->index, *record_.network_policy, NetworkPolicies::Sandbox::New);
    if (!enforced) return enforced;
  }
  parts_.config.step("slot");
  if (auto taken = take_volumes(); !taken) return taken;
  parts_.config.step("volumes");
  return {};
}

// A ready root has its slot already. Without one the record comes between directory and slot.
Result<void> Reservation::take_root() {
  if (plan_.takes_ready_root) {
    auto kind = RootKind::of(plan_.layers, plan_.host_image, plan_.slot_mode);
    if (!kind) return Failure(kind.error());
    kind_ = std::move(*kind);
    if (auto ready = parts_.roots.take(*kind_)) {
      live_.slot = std::move(ready->slot);
      stage_ = std::move(ready->stage);
      if (auto named = parts_.directories.give_name(ready->directory, directory_); !named) return named;
    }
  }
  if (!stage_) {
    if (auto made = parts_.directories.take(directory_); !made) return made;
  }
  if (plan_.disk_bytes != parts_.config.default_disk_bytes) {
    auto limited = parts_.config.trees.set_limit(parts_.config.tree(plan_.id), plan_.disk_bytes);
    if (!limited) return with_context("limit disk_bytes", limited.error());
  }
  parts_.config.step("directories");
  // A directory without a record is an unfinished create too. Only volumes that go with the sandbox, and the state of
  // an OCI runtime, have to be known by name; writing the record costs a twentieth of a create.
  if (!plan_.volumes.empty() || !plan_.runtime.empty()) {
    if (auto saved = save(); !saved) return saved;
  }
  parts_.config.step("record");
  if (stage_) return {};
  auto slot = parts_.host.slots.take(plan_.slot_mode);
  if (!slot && slot.error().code == Code::Unavailable && parts_.roots.drop()) {
    slot = parts_.host.slots.take(plan_.slot_mode);
  }
  if (!slot) return Failure(slot.error());
  live_.slot = std::move(*slot);
  return copy_root_mode(plan_.layers.front(), parts_.config.tree(plan_.id) + "/upper");
}

// So that a crash between here and the first record with a process does not leave new volumes for ever.
Result<void> Reservation::note_new_volumes() {
  const auto goes = [](const Volume& each) {
    return each.kind == VolumeKind::Named && each.create && each.delete_with_sandbox;
  };
  if (std::ranges::none_of(plan_.volumes, goes)) return {};
  auto there = parts_.host.volumes.list();
  if (!there) return Failure(there.error());
  for (const Volume& each : plan_.volumes) {
    if (goes(each) && std::ranges::find(*there, each.source) == there->end()) {
      record_.volumes_to_delete.push_back(each.source);
    }
  }
  return record_.volumes_to_delete.empty() ? Result<void>() : save();
}

Result<void> Reservation::take_volumes() {
  if (auto noted = note_new_volumes(); !noted) return noted;
  const bool noted = !record_.volumes_to_delete.empty();
  auto volumes = parts_.host.volumes.prepare(plan_.volumes, live_.slot->userns.get(), live_.slot->id_base);
  if (!volumes) return Failure(volumes.error());  // prepare() has removed the volumes that it made
  mounts_ = std::move(volumes->mounts);
  live_.volumes = std::move(volumes->in_use);
  live_.new_volumes = std::move(volumes->created);
  record_.volumes_to_delete = std::move(volumes->to_delete);
  for (const Volume& each : plan_.volumes) {
    if (each.kind == VolumeKind::Named) record_.volumes.push_back(each.source);
  }
  return noted ? save() : Result<void>();
}

Result<LaunchPlan> Reservation::launch_plan() {
  auto launch = sandboxd::launch_plan(plan_, *live_.slot, parts_.config.tree(plan_.id));
  if (!launch) return launch;
  launch->stage = std::exchange(stage_, std::nullopt);
  launch->mounts = std::move(mounts_);
  return launch;
}

Result<void> Reservation::wait_for_cgroup() {
  if (std::exchange(cgroup_awaited_, true)) return {};
  auto made = pending_cgroup_.get();
  if (!made) return Failure(made.error());
  live_.cgroup = std::move(made->group);
  cgroup_ = std::move(*made);
  return {};
}

Result<void> Reservation::join_cgroup(CgroupPlan& plan) {
  if (auto made = wait_for_cgroup(); !made) return made;
  plan.v2_directory = cgroup_.join.v2_directory.get();
  for (const UniqueFd& tasks : cgroup_.join.v1_tasks) plan.v1_tasks.push_back(tasks.get());
  for (const auto& [name, fd] : cgroup_.view) plan.view.emplace_back(name, fd.get());
  parts_.config.step("cgroup");
  return {};
}

Result<void> Reservation::publish_ports() {
  for (const api::native::PublishedPort& port : plan_.ports) {
    auto host_port = parts_.host.rules.publish(published_port(port, live_.slot->index));
    if (!host_port) return Failure(host_port.error());
    record_.status.ports.push_back({port.port, *host_port, port.protocol});
  }
  return {};
}

LiveSandbox Reservation::commit() {
  committed_ = true;
  if (kind_) parts_.roots.want(std::move(*kind_));
  return std::move(live_);
}

}  // namespace osb::sandboxd
