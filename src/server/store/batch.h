#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "server/store/record_index.h"

namespace osb::server {

// The state that the changes of one transaction see: the index, and on top of it the earlier changes of the same
// transaction. Used by the writer alone.
class Batch {
 public:
  explicit Batch(const RecordIndex& index) : index_(index) {}

  SandboxPtr find(const std::string& id) const;
  bool is_removal(const std::string& id) const;
  SandboxPtr find_named(const std::string& name, const std::string& tenant) const;  // one that has not ended
  SandboxPtr put(SandboxRecord record);
  void begin_removal(const std::string& id);

  std::optional<KeyRecord> find_key(const std::string& key) const;
  void put_key(const std::string& key, KeyRecord record);
  void erase_key(const std::string& key);

  SnapshotPtr find_snapshot(const std::string& id) const;
  SnapshotPtr put_snapshot(SnapshotRecord record);
  void erase_snapshot(const std::string& id);

  TemplatePtr find_template(const std::string& id) const;
  TemplatePtr put_template(TemplateRecord record);
  void erase_template(const std::string& id);

  const RecordIndex::Changes& changes() const { return changes_; }
  bool empty() const;

 private:
  bool is_gone(const std::string& key) const;  // taken out by this transaction

  const RecordIndex& index_;
  RecordIndex::Changes changes_;
};

// The decisions of Store's changes, each a function of the present state. They may run twice, on different batches,
// when a transaction failed, so they keep nothing.
namespace decide {

Result<Store::Created> create(Batch& batch, const SandboxRecord& record, const std::optional<IdempotencyKey>& key,
                              bool unique_name = false);
Result<SandboxPtr> patch_metadata(Batch& batch, const std::string& id, const api::MetadataPatch& patch);
Result<SandboxPtr> renew(Batch& batch, const std::string& id, Timestamp until, Moment now);
Result<SandboxPtr> extend(Batch& batch, const std::string& id, Moment now);
Result<std::optional<SandboxPtr>> expire_if_due(Batch& batch, const std::string& id, Timestamp running);
Result<SandboxPtr> begin_remove(Batch& batch, const std::string& id, const std::string& free_key);
Result<void> create_snapshot(Batch& batch, const SnapshotRecord& record);
Result<SnapshotPtr> change_snapshot(Batch& batch, const std::string& id, const std::vector<std::string>& from,
                                    const api::Status& to, const std::optional<std::string>& restore_config);
Result<void> erase_snapshot(Batch& batch, const std::string& id);
Result<void> create_template(Batch& batch, const TemplateRecord& record);
Result<TemplatePtr> change_template(Batch& batch, const std::string& id, const std::vector<std::string_view>& from,
                                    const Store::TemplateChange& change);
Result<void> erase_template(Batch& batch, const std::string& id);

}  // namespace decide

// Shared with reads: the meaning of a known key for a create with this fingerprint.
Result<Store::Created> repeat_of(const KeyRecord& known, std::string_view fingerprint, SandboxPtr record);

}  // namespace osb::server
