#pragma once

#include "base/error.h"
#include "server/store/record_index.h"
#include "server/store/sqlite.h"

namespace osb::server {

// Takes the file for this process alone, refuses what is damaged, foreign or newer, and brings an older schema up to
// date, step by step, each in one transaction. A file of the original server (its table of snapshots) is an older one.
Result<void> prepare_schema(Database& database);

// Everything that is recorded.
Result<RecordIndex::Changes> load_records(Database& database);

// The statements that write records. Runs within the caller's transaction.
class RecordWriter {
 public:
  static Result<RecordWriter> prepare(Database& database);

  Result<void> write(const RecordIndex::Changes& changes);
  Result<void> write_status(const SandboxRecord& record);
  Result<void> forget(const std::string& id);
  // Changes a row without a meaning, so that the commit has something to make durable.
  Result<void> touch();

 private:
  Result<void> write_snapshots(const RecordIndex::Changes& changes);
  Result<void> write_templates(const RecordIndex::Changes& changes);

  Statement put_sandbox_, begin_removal_, forget_, put_status_, put_key_, erase_key_, put_snapshot_, erase_snapshot_,
      put_template_, erase_template_, touch_;
};

}  // namespace osb::server
