#include "server/store/batch.h"

#include <algorithm>

#include "api/lifecycle_error.h"

namespace osb::server {
namespace {

Failure no_sandbox(const std::string& id) { return fail(Code::NotFound, "no such sandbox: " + id); }
bool past_deadline(const SandboxRecord& record, Timestamp running) { return record.due() && *record.due() <= running; }

}  // namespace

SandboxPtr Batch::find(const std::string& id) const {
  const auto changed = changes_.sandboxes.find(id);
  return changed == changes_.sandboxes.end() ? index_.find(id) : changed->second;
}

bool Batch::is_removal(const std::string& id) const {
  return changes_.removals_begun.contains(id) || index_.is_removal(id);
}

SandboxPtr Batch::find_named(const std::string& name, const std::string& tenant) const {
  const auto has_it = [&](const SandboxRecord& record) {
    return !record.has_ended() && record.owner.tenant == tenant && record.name() != nullptr && *record.name() == name;
  };
  for (const auto& [id, record] : changes_.sandboxes) {
    if (record && has_it(*record)) return record;
  }
  for (SandboxPtr& record : index_.all()) {
    if (has_it(*record) && !changes_.sandboxes.contains(record->id)) return std::move(record);
  }
  return nullptr;
}

SandboxPtr Batch::put(SandboxRecord record) {
  const std::string id = record.id;
  return changes_.sandboxes[id] = std::make_shared<const SandboxRecord>(std::move(record));
}

void Batch::begin_removal(const std::string& id) {
  changes_.sandboxes[id] = nullptr;
  changes_.removals_begun.insert(id);
}

std::optional<KeyRecord> Batch::find_key(const std::string& key) const {
  const auto changed = changes_.keys.find(key);
  if (changed != changes_.keys.end()) return changed->second;
  return is_gone(key) ? std::nullopt : index_.find_key(key);
}

void Batch::put_key(const std::string& key, KeyRecord record) {
  // New keys remove old ones, so that no timer is needed.
  for (std::string& old : index_.keys_before(record.created_at - kKeyLifetime)) {
    if (!is_gone(old)) changes_.keys_gone.push_back(std::move(old));
  }
  changes_.keys[key] = std::move(record);
}

void Batch::erase_key(const std::string& key) {
  changes_.keys.erase(key);
  if (!is_gone(key)) changes_.keys_gone.push_back(key);
}

bool Batch::is_gone(const std::string& key) const {
  return std::ranges::find(changes_.keys_gone, key) != changes_.keys_gone.end();
}

SnapshotPtr Batch::find_snapshot(const std::string& id) const {
  const auto changed = changes_.snapshots.find(id);
  return changed == changes_.snapshots.end() ? index_.find_snapshot(id) : changed->second;
}

SnapshotPtr Batch::put_snapshot(SnapshotRecord record) {
  const std::string id = record.id;
  return changes_.snapshots[id] = std::make_shared<const SnapshotRecord>(std::move(record));
}

void Batch::erase_snapshot(const std::string& id) { changes_.snapshots[id] = nullptr; }

TemplatePtr Batch::find_template(const std::string& id) const {
  const auto changed = changes_.templates.find(id);
  return changed == changes_.templates.end() ? index_.find_template(id) : changed->second;
}

TemplatePtr Batch::put_template(TemplateRecord record) {
  const std::string id = record.id;
  return changes_.templates[id] = std::make_shared<const TemplateRecord>(std::move(record));
}

void Batch::erase_template(const std::string& id) { changes_.templates[id] = nullptr; }

bool Batch::empty() const {
  return changes_.sandboxes.empty() && changes_.keys.empty() && changes_.snapshots.empty() &&
         changes_.templates.empty();
}

Result<Store::Created> repeat_of(const KeyRecord& known, std::string_view fingerprint, SandboxPtr record) {
  if (known.fingerprint != fingerprint) {
    return api::refuse(Code::Conflict, api::reason::kIdempotencyConflict,
                       "this Idempotency-Key was used with another request within the last 24 hours");
  }
  return Store::Created{std::move(record), false, known.sandbox_id, known.answer};
}

namespace decide {

Result<Store::Created> create(Batch& batch, const SandboxRecord& record, const std::optional<IdempotencyKey>& key,
                              bool unique_name) {
  if (key) {
    const auto known = batch.find_key(key->key);
    if (known && known->created_at + kKeyLifetime > record.created_at) {
      return repeat_of(*known, key->fingerprint, batch.find(known->sandbox_id));
    }
  }
  if (batch.find(record.id) || batch.is_removal(record.id)) {
    return fail(Code::Conflict, "the id " + record.id + " is in use");
  }
  if (const std::string* name = unique_name ? record.name() : nullptr) {
    if (const SandboxPtr other = batch.find_named(*name, record.owner.tenant)) {
      return api::refuse(Code::Conflict, "SANDBOX::NAME_IN_USE",
                         "the name '" + *name + "' is in use by sandbox " + other->id);
    }
  }
  if (key) batch.put_key(key->key, {key->fingerprint, record.id, key->answer, record.created_at});
  return Store::Created{batch.put(record), true, record.id, key ? key->answer : ""};
}

Result<SandboxPtr> patch_metadata(Batch& batch, const std::string& id, const api::MetadataPatch& patch) {
  SandboxPtr record = batch.find(id);
  if (!record) return no_sandbox(id);
  if (patch.empty()) return record;
  SandboxRecord changed = *record;
  if (!changed.metadata) changed.metadata.emplace();
  api::apply_patch(*changed.metadata, patch);
  return batch.put(std::move(changed));
}

Result<SandboxPtr> renew(Batch& batch, const std::string& id, Timestamp until, Moment now) {
  const SandboxPtr record = batch.find(id);
  if (!record || past_deadline(*record, now.running())) return no_sandbox(id);
  if (!record->expires_at) return fail(Code::Conflict, "the sandbox has no deadline; it lives until it is deleted");
  SandboxRecord changed = *record;
  changed.expires_at = until;
  changed.clock_set_by = now.set_by;
  return batch.put(std::move(changed));
}

Result<SandboxPtr> extend(Batch& batch, const std::string& id, Moment now) {
  SandboxPtr record = batch.find(id);
  if (!record || past_deadline(*record, now.running())) return no_sandbox(id);
  if (!record->expires_at || !record->access_renew || *record->due() >= now.running() + *record->access_renew) {
    return record;
  }
  SandboxRecord changed = *record;
  changed.expires_at = now.wall + *record->access_renew;
  changed.clock_set_by = now.set_by;
  return batch.put(std::move(changed));
}

Result<std::optional<SandboxPtr>> expire_if_due(Batch& batch, const std::string& id, Timestamp running) {
  SandboxPtr record = batch.find(id);
  if (!record || !past_deadline(*record, running)) return std::nullopt;
  batch.begin_removal(id);
  return record;
}

Result<SandboxPtr> begin_remove(Batch& batch, const std::string& id, const std::string& free_key) {
  SandboxPtr record = batch.find(id);
  if (!record) return no_sandbox(id);
  batch.begin_removal(id);
  if (!free_key.empty()) {
    const auto key = batch.find_key(free_key);
    if (key && key->sandbox_id == id) batch.erase_key(free_key);
  }
  return record;
}

Result<void> create_snapshot(Batch& batch, const SnapshotRecord& record) {
  if (batch.find_snapshot(record.id)) return fail(Code::Conflict, "the snapshot id " + record.id + " is in use");
  batch.put_snapshot(record);
  return {};
}

Result<SnapshotPtr> change_snapshot(Batch& batch, const std::string& id, const std::vector<std::string>& from,
                                    const api::Status& to, const std::optional<std::string>& restore_config) {
  const SnapshotPtr record = batch.find_snapshot(id);
  if (!record) return api::refuse(Code::NotFound, api::reason::kSnapshotNotFound, "no such snapshot: " + id);
  if (std::ranges::find(from, record->status.state) == from.end()) {
    return api::refuse(Code::Conflict, api::reason::kSnapshotInvalidState, "the snapshot is " + record->status.state);
  }
  SnapshotRecord changed = *record;
  changed.status = to;
  if (restore_config) changed.restore_config = *restore_config;
  return batch.put_snapshot(std::move(changed));
}

Result<void> erase_snapshot(Batch& batch, const std::string& id) {
  if (batch.find_snapshot(id)) batch.erase_snapshot(id);
  return {};
}

Result<void> create_template(Batch& batch, const TemplateRecord& record) {
  if (batch.find_template(record.id)) {
    return api::refuse(Code::Conflict, api::reason::kTemplateConflict, "the template id " + record.id + " is in use");
  }
  batch.put_template(record);
  return {};
}

Result<TemplatePtr> change_template(Batch& batch, const std::string& id, const std::vector<std::string_view>& from,
                                    const Store::TemplateChange& change) {
  const TemplatePtr record = batch.find_template(id);
  if (!record) return api::refuse(Code::NotFound, api::reason::kTemplateNotFound, "no such template: " + id);
  if (std::ranges::find(from, record->status.phase) == from.end()) {
    return api::refuse(Code::Conflict, api::reason::kTemplateConflict, "the template is " + record->status.phase);
  }
  TemplateRecord changed = *record;
  change(changed);
  return batch.put_template(std::move(changed));
}

Result<void> erase_template(Batch& batch, const std::string& id) {
  if (batch.find_template(id)) batch.erase_template(id);
  return {};
}

}  // namespace decide
}  // namespace osb::server
