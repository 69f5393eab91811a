#include "server/store/record_index.h"

#include <algorithm>
#include <ranges>
#include <tuple>

#include "api/lifecycle_error.h"
#include "base/text.h"

namespace osb::server {
namespace {

bool has_all(const std::optional<api::Metadata>& metadata, const api::Metadata& wanted) {
  return wanted.empty() || (metadata && std::ranges::all_of(wanted, [&](const auto& pair) {
                              const auto found = metadata->find(pair.first);
                              return found != metadata->end() && found->second == pair.second;
                            }));
}

bool matches(const SandboxRecord& record, const api::SandboxQuery& query) {
  if (!query.states.empty() && std::ranges::none_of(query.states, [&](const std::string& state) {
        return equals_ignoring_case(record.status.state, state);
      })) {
    return false;
  }
  if (query.match && !record.id.starts_with(*query.match)) {
    const std::string* name = record.name();
    if (name == nullptr || *name != *query.match) return false;
  }
  return has_all(record.metadata, query.metadata);
}

bool matches(const TemplateRecord& record, const api::TemplateQuery& query) {
  if (record.status.phase == api::template_phase::kDeleting) return false;
  if (query.match && !record.id.starts_with(*query.match)) return false;
  return has_all(record.spec->metadata, query.metadata);
}

bool matches(const SnapshotRecord& record, const api::SnapshotQuery& query) {
  if (query.sandbox_id && record.sandbox_id != *query.sandbox_id) return false;
  if (query.name && record.name != *query.name) return false;
  if (query.match && record.name != *query.match && !record.id.starts_with(*query.match)) return false;
  return query.states.empty() || std::ranges::find(query.states, record.status.state) != query.states.end();
}

std::uint64_t bit_of(std::string_view text) { return std::uint64_t{1} << (std::hash<std::string_view>()(text) & 63); }

std::uint64_t state_bit(std::string_view state) { return bit_of(lower(state)); }

std::uint64_t metadata_bits(const api::Metadata& metadata) {
  std::uint64_t bits = 0;
  for (const auto& [key, value] : metadata) bits |= bit_of(key + "=" + value);
  return bits;
}

// One pass: counts what matches, keeps what is on the page.
template <typename Pointer>
void add_match(Store::Page<Pointer>& page, const Pointer& record, const api::Paging& paging) {
  const std::int64_t first = (paging.page - 1) * paging.page_size;
  if (page.total >= first && page.total < first + paging.page_size) page.items.push_back(record);
  ++page.total;
}

template <typename Map>
auto values(const Map& map) {
  std::vector<typename Map::mapped_type> out;
  out.reserve(map.size());
  for (const auto& [key, value] : map) out.push_back(value);
  return out;
}

}  // namespace

RecordIndex::Row RecordIndex::row_of(SandboxPtr record) {
  const std::uint64_t metadata = record->metadata ? metadata_bits(*record->metadata) : 0;
  return {record->created_at, record, state_bit(record->status.state), metadata};
}

std::vector<RecordIndex::Row>::iterator RecordIndex::place_of(const SandboxRecord& record) {
  return std::ranges::lower_bound(rows_, std::tie(record.created_at, record.id), {},
                                  [](const Row& row) { return std::tie(row.created_at, row.record->id); });
}

void RecordIndex::put(SandboxPtr record) {
  SandboxPtr& slot = sandboxes_[record->id];
  const bool known = slot != nullptr;
  if (known) {
    if (slot->status != record->status) {
      auto merged = std::make_shared<SandboxRecord>(*record);
      merged->status = slot->status;
      record = std::move(merged);
    }
    if (const auto due = slot->due()) deadlines_.erase({*due, slot->id});
  }
  slot = record;
  if (const auto due = record->due()) deadlines_.emplace(*due, record->id);
  const auto place = place_of(*record);
  if (known) {
    *place = row_of(std::move(record));
  } else {
    rows_.insert(place, row_of(std::move(record)));
  }
}

void RecordIndex::erase(const std::string& id) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) return;
  const SandboxPtr record = found->second;
  if (const auto due = record->due()) deadlines_.erase({*due, id});
  rows_.erase(place_of(*record));
  sandboxes_.erase(found);
}

void RecordIndex::apply(const Changes& changes) {
  const std::unique_lock lock(mutex_);
  std::vector<SandboxPtr> puts;
  for (const auto& [id, record] : changes.sandboxes) {
    if (record) {
      puts.push_back(record);
    } else {
      erase(id);
    }
  }
  // In the order of rows_: loading everything appends instead of inserting.
  std::ranges::sort(puts, {}, [](const SandboxPtr& record) { return std::tie(record->created_at, record->id); });
  for (SandboxPtr& record : puts) put(std::move(record));
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
  snapshots_.apply(changes.snapshots);
  templates_.apply(changes.templates);
}

template <typename Pointer>
void RecordIndex::NewestFirst<Pointer>::apply(const std::map<std::string, Pointer>& changes) {
  for (const auto& [id, record] : changes) {
    if (const auto found = by_id.find(id); found != by_id.end()) {
      by_age.erase({found->second->created_at, id});
      by_id.erase(found);
    }
    if (!record) continue;
    by_id[id] = record;
    by_age[{record->created_at, id}] = record;
  }
}

template <typename Pointer>
Pointer RecordIndex::NewestFirst<Pointer>::find(std::string_view id) const {
  const auto found = by_id.find(id);
  return found == by_id.end() ? nullptr : found->second;
}

SandboxPtr RecordIndex::find(std::string_view id) const {
  const std::shared_lock lock(mutex_);
  const auto found = sandboxes_.find(id);
  return found == sandboxes_.end() ? nullptr : found->second;
}

Store::Page<SandboxPtr> RecordIndex::list(const api::SandboxQuery& query, const Scope& scope) const {
  const std::shared_lock lock(mutex_);
  std::uint64_t states = 0;
  for (const std::string& state : query.states) states |= state_bit(state);
  const std::uint64_t metadata = metadata_bits(query.metadata);
  Store::Page<SandboxPtr> page;
  for (const Row& row : rows_ | std::views::reverse) {
    if (states != 0 && (row.state & states) == 0) continue;
    if ((row.metadata & metadata) != metadata || !matches(*row.record, query)) continue;
    if (!scope.covers(row.record->owner.tenant)) continue;
    add_match(page, row.record, query.paging);
  }
  return page;
}

std::vector<SandboxPtr> RecordIndex::all() const {
  const std::shared_lock lock(mutex_);
  std::vector<SandboxPtr> out;
  for (const Row& row : rows_ | std::views::reverse) out.push_back(row.record);
  return out;
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

std::vector<SandboxPtr> RecordIndex::due(Timestamp running) const {
  const std::shared_lock lock(mutex_);
  std::vector<SandboxPtr> out;
  for (const auto& [deadline, id] : deadlines_) {
    if (deadline > running) break;
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
  *place_of(*changed) = row_of(changed);
  return slot;
}

std::optional<KeyRecord> RecordIndex::find_key(std::string_view key) const {
  const std::shared_lock lock(mutex_);
  const auto found = keys_.find(key);
  if (found == keys_.end()) return std::nullopt;
  return found->second;
}

std::optional<KnownKey> RecordIndex::find_key_and_record(std::string_view key) const {
  const std::shared_lock lock(mutex_);
  const auto found = keys_.find(key);
  if (found == keys_.end()) return std::nullopt;
  const auto record = sandboxes_.find(found->second.sandbox_id);
  return KnownKey{found->second, record == sandboxes_.end() ? nullptr : record->second};
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
  return snapshots_.find(id);
}

Store::Page<SnapshotPtr> RecordIndex::list_snapshots(const api::SnapshotQuery& query, const Scope& scope) const {
  const std::shared_lock lock(mutex_);
  Store::Page<SnapshotPtr> page;
  for (const auto& [key, record] : snapshots_.by_age) {
    if (scope.covers(record->owner.tenant) && matches(*record, query)) add_match(page, record, query.paging);
  }
  return page;
}

std::vector<SnapshotPtr> RecordIndex::all_snapshots() const {
  const std::shared_lock lock(mutex_);
  return values(snapshots_.by_age);
}

TemplatePtr RecordIndex::find_template(std::string_view id) const {
  const std::shared_lock lock(mutex_);
  return templates_.find(id);
}

Store::Page<TemplatePtr> RecordIndex::list_templates(const api::TemplateQuery& query, const Scope& scope) const {
  const std::shared_lock lock(mutex_);
  Store::Page<TemplatePtr> page;
  for (const auto& [key, record] : templates_.by_age) {
    if (scope.covers(record->owner.tenant) && matches(*record, query)) add_match(page, record, query.paging);
  }
  return page;
}

std::vector<TemplatePtr> RecordIndex::all_templates() const {
  const std::shared_lock lock(mutex_);
  return values(templates_.by_age);
}

}  // namespace osb::server
