#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/lifecycle_query.h"
#include "base/error.h"
#include "server/store/record.h"
#include "server/store/store.h"

namespace osb::server {

// The result of one create with an Idempotency-Key.
struct KeyRecord {
  std::string fingerprint;
  std::string sandbox_id;
  std::string answer;
  Timestamp created_at{};
};

struct KnownKey {
  KeyRecord key;
  SandboxPtr record;  // nullptr: deleted
};

inline constexpr std::chrono::hours kKeyLifetime{24};

// All records in memory, for reads from any thread: one lock, held for a look-up, or for one pass over a list. Changes
// come in commits, so that a reader sees all of one or nothing.
class RecordIndex {
 public:
  // A commit: the last word on each id. Nothing means it is gone.
  struct Changes {
    std::map<std::string, SandboxPtr> sandboxes;
    std::set<std::string> removals_begun;  // ids of `sandboxes` that are gone but not forgotten
    std::map<std::string, KeyRecord> keys;
    std::vector<std::string> keys_gone;
    std::map<std::string, SnapshotPtr> snapshots;
    std::map<std::string, TemplatePtr> templates;
  };
  // A sandbox that is here already keeps its present status: that may have changed since the commit was put together.
  void apply(const Changes& changes);

  SandboxPtr find(std::string_view id) const;
  Store::Page<SandboxPtr> list(const api::SandboxQuery& query, const Scope& scope) const;
  std::vector<SandboxPtr> all() const;
  std::size_t size() const;
  std::optional<Timestamp> next_deadline() const;
  std::vector<SandboxPtr> due(Timestamp running) const;

  std::vector<std::string> removals() const;
  bool is_removal(std::string_view id) const;
  bool forget(std::string_view id);  // false: there was no such removal

  Result<SandboxPtr> change_status(std::string_view id, std::initializer_list<std::string_view> from, api::Status to);

  std::optional<KeyRecord> find_key(std::string_view key) const;
  // Both of one moment.
  std::optional<KnownKey> find_key_and_record(std::string_view key) const;
  std::vector<std::string> keys_before(Timestamp time) const;

  SnapshotPtr find_snapshot(std::string_view id) const;
  Store::Page<SnapshotPtr> list_snapshots(const api::SnapshotQuery& query, const Scope& scope) const;
  std::vector<SnapshotPtr> all_snapshots() const;

  TemplatePtr find_template(std::string_view id) const;
  Store::Page<TemplatePtr> list_templates(const api::TemplateQuery& query, const Scope& scope) const;
  std::vector<TemplatePtr> all_templates() const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  template <typename T>
  using ById = std::unordered_map<std::string, T, Hash, std::equal_to<>>;
  using TimeAndId = std::pair<Timestamp, std::string>;

  // A record's place in a list, with enough of it to pass over most that do not match without touching them: one bit
  // of 64 for the state and for each pair of metadata.
  struct Row {
    Timestamp created_at{};
    SandboxPtr record;
    std::uint64_t state = 0;
    std::uint64_t metadata = 0;
  };
  static Row row_of(SandboxPtr record);

  void put(SandboxPtr record);
  void erase(const std::string& id);
  std::vector<Row>::iterator place_of(const SandboxRecord& record);

  mutable std::shared_mutex mutex_;
  ById<SandboxPtr> sandboxes_;
  std::vector<Row> rows_;  // oldest first, equal times by id: new ones come at the end
  std::set<TimeAndId> deadlines_;
  std::set<std::string, std::less<>> removals_;
  std::map<std::string, KeyRecord, std::less<>> keys_;
  std::set<TimeAndId> key_ages_;
  // Few: a list sorts nothing and skips nothing.
  template <typename Pointer>
  struct NewestFirst {
    ById<Pointer> by_id;
    std::map<TimeAndId, Pointer, std::greater<>> by_age;

    void apply(const std::map<std::string, Pointer>& changes);
    Pointer find(std::string_view id) const;
  };
  NewestFirst<SnapshotPtr> snapshots_;
  NewestFirst<TemplatePtr> templates_;
};

}  // namespace osb::server
