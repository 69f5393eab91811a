#include "server/store/record_index.h"

#include <algorithm>

#include "api/lifecycle_error.h"

namespace osb::server {
namespace {

bool equals_lower(std::string_view text, std::string_view lower) {
  return std::ranges::equal(text, lower, [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a | 32 : a) == b; });
}

bool matches(const SandboxRecord& record, const api::SandboxQuery& query) {
  if (!query.states.empty() && std::ranges::none_of(query.states, [&](const std::string& state) {
        return equals_lower(record.status.state, state);
      })) {
    return false;
  }
  if (query.metadata.empty()) return true;
  if (!record.metadata) return false;
  return std::ranges::all_of(query.metadata, [&](const auto& wanted) {
    const auto found = record.metadata->find(wanted.first);
    return found != record.metadata->end() && found->second == wanted.second;
  });
}

bool matches(const SnapshotRecord& record, const api::SnapshotQuery& query) {
  if (query.sandbox_id && record.sandbox_id != *query.sandbox_id) return false;
  if (query.name && record.name != *query.name) return false;
  return query.states.empty() || std::ranges::find(query.states, record.status.state) != query.states.end();
}

// One pass: counts what matches, keeps what is on the page.
template <typename Pointer, typename Ordered, typename Query>
Store::Page<Pointer> page_of(const Ordered& ordered, const Query& query) {
  Store::Page<Pointer> page;
  const std::int64_t first = (query.paging.page - 1) * query.paging.page_size;
  for (const auto& [key, record] : ordered) {
    if (!matches(*record, query)) continue;
    if (page.total >= first && page.total < first + query.paging.page_size) page.items.push_back(record);
    ++page.total;
  }
  return page;
}

template <typename Map>
auto values(const Map& map) {
  std::vector<typename Map::mapped_type> out;
  out.reserve(map.size());
  for (const auto& [key, value] : map) out.push_back(value);
  return out;
}

}  // namespace

void RecordIndex::put(SandboxPtr record) {
  SandboxPtr& slot = sandboxes_[record->id];
  if (slot) {
    if (slot->status != record->status) {
      auto merged = std::make_shared<SandboxRecord>(*record);
      merged->status = slot->status;
      record = std::move(merged);
    }
    if (slot->expires_at) deadlines_.erase({*slot->expires_at, slot->id});
  }
  slot = record;
  if (record->expires_at) deadlines_.emplace(*record->expires_at, record->id);
  newest_first_[{record->created_at, record->id}] = std::move(record);
}

void RecordIndex::erase(const std::string& id) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return;
  const SandboxPtr record = found->second;
  if (record->expires_at) deadlines_.erase({*record->expires_at, id});
  newest_first_.erase({record->created_at, id});
  sandboxes_.erase(found);
}

void RecordIndex::apply(const Changes& changes) {
  const std::unique_lock lock(mutex_);
  for (const auto& [id, record] : changes.sandboxes) {
    if (record) {
      put(record);
    } else {
      erase(id);
    }
  }
  removals_.insert(changes.removals_begun.begin(), changes.removals_begun.end());
  for (const std::string& key : changes.keys_gone) {
    const auto found = keys_.find(key);
    if (found == keys_.end()) continue;
    key_ages_.erase({found->second.created_at, key});
    keys_.erase(found);
  }
  for (const auto& [key, record] : changes.keys) {
    keys_[key] = record;
    key_ages_.emplace(record.created_at, key);
  }
  for (const auto& [id, record] : changes.snapshots) {
    if (const auto found = snapshots_.find(id); found != snapshots_.end()) {
      snapshots_newest_first_.erase({found->second->created_at, id});
      snapshots_.erase(found);
    }
    if (!record) continue;
    snapshots_[id] = record;
    snapshots_newest_first_[{record->created_at, id}] = record;
  }
}

SandboxPtr RecordIndex::find(std::string_view id) const {
  const std::shared_lock lock(mutex_);
  const auto found = sandboxes_.find(id);
  return found == sandboxes_.end() ? nullptr : found->second;
}

Store::Page<SandboxPtr> RecordIndex::list(const api::SandboxQuery& query) const {
  const std::shared_lock lock(mutex_);
  return page_of<SandboxPtr>(newest_first_, query);
}

std::vector<SandboxPtr> RecordIndex::all() const {
  const std::shared_lock lock(mutex_);
  return values(newest_first_);
}

std::size_t RecordIndex::size() const {
  const std::shared_lock lock(mutex_);
  return sandboxes_.size();
}

std::optional<Timestamp> RecordIndex::next_deadline() const {
  const std::shared_lock lock(mutex_);
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

std::vector<SandboxPtr> RecordIndex::due(Timestamp now) const {
  const std::shared_lock lock(mutex_);
  std::vector<SandboxPtr> out;
  for (const auto& [deadline, id] : deadlines_) {
    if (deadline > now) break;
    out.push_back(sandboxes_.find(id)->second);
  }
  return out;
}

std::vector<std::string> RecordIndex::removals() const {
  const std::shared_lock lock(mutex_);
  return {removals_.begin(), removals_.end()};
}

bool RecordIndex::is_removal(std::string_view id) const {
  const std::shared_lock lock(mutex_);
  return removals_.contains(id);
}

bool RecordIndex::forget(std::string_view id) {
  const std::unique_lock lock(mutex_);
  const auto found = removals_.find(id);
  if (found == removals_.end()) return false;
  removals_.erase(found);
  return true;
}

Result<SandboxPtr> RecordIndex::change_status(std::string_view id, std::initializer_list<std::string_view> from,
                                              api::Status to) {
  const std::unique_lock lock(mutex_);
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return fail(Code::NotFound, "no such sandbox: " + std::string(id));
  SandboxPtr& slot = found->second;
  if (from.size() > 0 && std::ranges::find(from, slot->status.state) == from.end()) {
    return fail(Code::Conflict, "the sandbox is " + slot->status.state);
  }
  auto changed = std::make_shared<SandboxRecord>(*slot);
  changed->status = std::move(to);
  slot = changed;
  newest_first_[{changed->created_at, changed->id}] = changed;
  return slot;
}

std::optional<KeyRecord> RecordIndex::find_key(std::string_view key) const {
  const std::shared_lock lock(mutex_);
  const auto found = keys_.find(key);
  if (found == keys_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> RecordIndex::keys_before(Timestamp time) const {
  const std::shared_lock lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [created_at, key] : key_ages_) {
    if (created_at >= time) break;
    out.push_back(key);
  }
  return out;
}

SnapshotPtr RecordIndex::find_snapshot(std::string_view id) const {
  const std::shared_lock lock(mutex_);
  const auto found = snapshots_.find(id);
  return found == snapshots_.end() ? nullptr : found->second;
}

Store::Page<SnapshotPtr> RecordIndex::list_snapshots(const api::SnapshotQuery& query) const {
  const std::shared_lock lock(mutex_);
  return page_of<SnapshotPtr>(snapshots_newest_first_, query);
}

std::vector<SnapshotPtr> RecordIndex::all_snapshots() const {
  const std::shared_lock lock(mutex_);
  return values(snapshots_newest_first_);
}

}  // namespace osb::server
