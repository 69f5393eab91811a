#include "server/store/schema.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"

namespace osb::server {
namespace {

namespace json = boost::json;

constexpr std::int64_t kApplicationId = 0x4f534258;  // "OSBX"

// Number n brings a file from version n to n + 1. Never change one that has been released: add the next.
// `snapshots` is as the original server made it, times as text; our own times are microseconds since 1970.
constexpr std::string_view kMigrations[] = {
    R"(
CREATE TABLE sandboxes (
  id TEXT PRIMARY KEY NOT NULL,
  spec TEXT NOT NULL,
  metadata TEXT,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  message TEXT NOT NULL,
  last_transition_at INTEGER,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  access_renew_seconds INTEGER,
  removing INTEGER NOT NULL DEFAULT 0);
CREATE TABLE idempotency_keys (
  key TEXT PRIMARY KEY NOT NULL,
  fingerprint TEXT NOT NULL,
  sandbox_id TEXT NOT NULL,
  answer TEXT NOT NULL,
  created_at INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS snapshots (
  id TEXT PRIMARY KEY,
  source_sandbox_id TEXT NOT NULL,
  name TEXT,
  description TEXT,
  restore_config TEXT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT,
  message TEXT,
  last_transition_at TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS idx_snapshots_source_sandbox_id ON snapshots (source_sandbox_id);
CREATE INDEX IF NOT EXISTS idx_snapshots_state ON snapshots (state);
CREATE INDEX IF NOT EXISTS idx_snapshots_created_at ON snapshots (created_at DESC);
CREATE TABLE flushes (id INTEGER PRIMARY KEY, count INTEGER NOT NULL);
)",
    // execd's token was kept among the user's extensions.
    R"(
ALTER TABLE sandboxes ADD COLUMN execd_token TEXT NOT NULL DEFAULT '';
UPDATE sandboxes SET
  execd_token = coalesce(json_extract(spec, '$.extensions."opensandbox.io/execd-token"'), ''),
  spec = json_remove(spec, '$.extensions."opensandbox.io/execd-token"')
WHERE json_valid(spec);
)",
    // Everything there was belongs to the administrator.
    R"(
ALTER TABLE sandboxes ADD COLUMN tenant TEXT NOT NULL DEFAULT 'default';
ALTER TABLE sandboxes ADD COLUMN owner TEXT NOT NULL DEFAULT 'admin';
ALTER TABLE snapshots ADD COLUMN tenant TEXT NOT NULL DEFAULT 'default';
ALTER TABLE snapshots ADD COLUMN owner TEXT NOT NULL DEFAULT 'admin';
)",
    // Nothing there was has a network policy: servers up to here refused them.
    R"(
ALTER TABLE sandboxes ADD COLUMN egress_token TEXT NOT NULL DEFAULT '';
)",
    R"(
CREATE TABLE templates (
  id TEXT PRIMARY KEY NOT NULL,
  tenant TEXT NOT NULL,
  owner TEXT NOT NULL,
  spec TEXT NOT NULL,
  phase TEXT NOT NULL,
  manifest_ref TEXT NOT NULL,
  message TEXT NOT NULL,
  sandbox_id TEXT NOT NULL,
  snapshot_id TEXT NOT NULL,
  log TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL);
)",
};
constexpr std::int64_t kVersion = std::size(kMigrations);

Failure unusable(const Database& database, std::string_view reason, const std::string& why) {
  Error error(Code::Internal, "store " + database.path().string() + ": " + why);
  error.reason = reason;
  return Failure(std::move(error));
}

std::int64_t to_number(Timestamp time) { return time.time_since_epoch().count(); }
Timestamp to_time(std::int64_t number) { return Timestamp(std::chrono::microseconds(number)); }

std::optional<std::int64_t> to_number(const std::optional<Timestamp>& time) {
  return time ? std::optional(to_number(*time)) : std::nullopt;
}
std::optional<Timestamp> to_time(std::optional<std::int64_t> number) {
  return number ? std::optional(to_time(*number)) : std::nullopt;
}

std::optional<std::string> encode_metadata(const std::optional<api::Metadata>& metadata) {
  if (!metadata) return std::nullopt;
  json::object out;
  for (const auto& [key, value] : *metadata) out.emplace(key, value);
  return json::serialize(out);
}

Result<std::optional<api::Metadata>> decode_metadata(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  const auto value = api::parse_json(*text);
  if (!value) return Failure(value.error());
  const json::object* object = value->if_object();
  if (object == nullptr) return fail(Code::Internal, "metadata is no object");
  api::Metadata out;
  for (const auto& entry : *object) {
    const auto* item = entry.value().if_string();
    if (item == nullptr) return fail(Code::Internal, "metadata is no map of strings");
    out.emplace(entry.key(), std::string(item->data(), item->size()));
  }
  return out;
}

Failure unreadable(const Database& database, std::string_view what, std::string_view id, const Error& cause) {
  return unusable(database, kStoreCorrupt, std::string(what) + " " + std::string(id) + ": " + cause.message);
}

Result<void> load_sandboxes(Database& database, RecordIndex::Changes& out) {
  auto rows = database.prepare(
      "SELECT id, spec, metadata, state, reason, message, last_transition_at, created_at, expires_at, "
      "access_renew_seconds, removing, execd_token, tenant, owner, egress_token FROM sandboxes");
  if (!rows) return Failure(rows.error());
  for (;;) {
    const auto row = rows->step();
    if (!row) return Failure(row.error());
    if (!*row) return {};
    std::string id(rows->text_at(0));
    if (rows->number_at(10) != 0) {
      out.removals_begun.insert(std::move(id));
      continue;
    }
    auto spec = api::decode_recorded_create(rows->text_at(1));
    if (!spec) return unreadable(database, "sandbox", id, spec.error());
    auto metadata = decode_metadata(rows->optional_text_at(2));
    if (!metadata) return unreadable(database, "sandbox", id, metadata.error());
    auto record = std::make_shared<SandboxRecord>();
    record->id = id;
    record->spec = std::make_shared<const api::CreateSandbox>(std::move(*spec));
    record->metadata = std::move(*metadata);
    record->execd_token = rows->text_at(11);
    record->egress_token = rows->text_at(14);
    record->owner = {std::string(rows->text_at(12)), std::string(rows->text_at(13))};
    record->status = {std::string(rows->text_at(3)), std::string(rows->text_at(4)), std::string(rows->text_at(5)),
                      to_time(rows->optional_number_at(6))};
    record->created_at = to_time(rows->number_at(7));
    record->expires_at = to_time(rows->optional_number_at(8));
    if (const auto renew = rows->optional_number_at(9)) record->access_renew = std::chrono::seconds(*renew);
    out.sandboxes.emplace(std::move(id), std::move(record));
  }
}

Result<void> load_keys(Database& database, RecordIndex::Changes& out) {
  auto rows = database.prepare("SELECT key, fingerprint, sandbox_id, answer, created_at FROM idempotency_keys");
  if (!rows) return Failure(rows.error());
  for (;;) {
    const auto row = rows->step();
    if (!row) return Failure(row.error());
    if (!*row) return {};
    KeyRecord key{std::string(rows->text_at(1)), std::string(rows->text_at(2)), std::string(rows->text_at(3)),
                  to_time(rows->number_at(4))};
    out.keys.emplace(rows->text_at(0), std::move(key));
  }
}

Result<void> load_snapshots(Database& database, RecordIndex::Changes& out) {
  auto rows = database.prepare(
      "SELECT id, source_sandbox_id, name, restore_config, state, reason, message, last_transition_at, created_at, "
      "tenant, owner "
      "FROM snapshots");
  if (!rows) return Failure(rows.error());
  for (;;) {
    const auto row = rows->step();
    if (!row) return Failure(row.error());
    if (!*row) return {};
    auto record = std::make_shared<SnapshotRecord>();
    record->id = rows->text_at(0);
    record->sandbox_id = rows->text_at(1);
    record->name = rows->text_at(2);
    record->restore_config = rows->text_at(3);
    record->status = {std::string(rows->text_at(4)), std::string(rows->text_at(5)), std::string(rows->text_at(6)), {}};
    if (const auto text = rows->optional_text_at(7)) {
      const auto time = parse_timestamp(*text);
      if (!time) return unreadable(database, "snapshot", record->id, time.error());
      record->status.last_transition_at = *time;
    }
    const auto created_at = parse_timestamp(rows->text_at(8));
    if (!created_at) return unreadable(database, "snapshot", record->id, created_at.error());
    record->created_at = *created_at;
    record->owner = {std::string(rows->text_at(9)), std::string(rows->text_at(10))};
    out.snapshots.emplace(record->id, record);
  }
}

Result<void> load_templates(Database& database, RecordIndex::Changes& out) {
  auto rows = database.prepare(
      "SELECT id, tenant, owner, spec, phase, manifest_ref, message, sandbox_id, snapshot_id, log, created_at, "
      "updated_at FROM templates");
  if (!rows) return Failure(rows.error());
  for (;;) {
    const auto row = rows->step();
    if (!row) return Failure(row.error());
    if (!*row) return {};
    auto record = std::make_shared<TemplateRecord>();
    record->id = rows->text_at(0);
    record->owner = {std::string(rows->text_at(1)), std::string(rows->text_at(2))};
    auto spec = api::decode_create_template(rows->text_at(3));
    if (!spec) return unreadable(database, "template", record->id, spec.error());
    record->spec = std::make_shared<const api::CreateTemplate>(std::move(*spec));
    record->status = {std::string(rows->text_at(4)), std::string(rows->text_at(5)), std::string(rows->text_at(6))};
    record->sandbox_id = rows->text_at(7);
    record->snapshot_id = rows->text_at(8);
    record->log = rows->text_at(9);
    record->created_at = to_time(rows->number_at(10));
    record->updated_at = to_time(rows->number_at(11));
    out.templates.emplace(record->id, record);
  }
}

Result<void> migrate(Database& database, std::int64_t version) {
  for (; version < kVersion; ++version) {
    // One string: after any failure the transaction is rolled back as a whole.
    const std::string script = "BEGIN IMMEDIATE;" + std::string(kMigrations[version]) +
                               "PRAGMA application_id = " + std::to_string(kApplicationId) +
                               "; PRAGMA user_version = " + std::to_string(version + 1) + "; COMMIT;";
    if (auto done = database.execute(script); !done) {
      database.rollback();
      return with_context(
          "bring the schema from version " + std::to_string(version) + " to " + std::to_string(version + 1),
          std::move(done).error());
    }
  }
  return {};
}

}  // namespace

Result<void> prepare_schema(Database& database) {
  // Exclusive: no other process may change what is held in memory here, and no shared-memory file is needed.
  if (auto done = database.execute("PRAGMA locking_mode = EXCLUSIVE"); !done) return done;
  const auto application = database.number("PRAGMA application_id");
  if (!application) return Failure(application.error());
  if (*application != 0 && *application != kApplicationId) {
    return unusable(database, kStoreCorrupt,
                    "the file is a database of another program; give [store] path another one");
  }
  const auto mode = database.text("PRAGMA journal_mode = WAL");
  if (!mode) return Failure(mode.error());
  if (*mode != "wal") return unusable(database, kStoreFailed, "the file system does not support a write-ahead log");
  if (auto done = database.execute("PRAGMA synchronous = FULL"); !done) return done;
  // Writing takes the lock for good, and shows whether writing is possible at all.
  if (auto done = database.execute("BEGIN IMMEDIATE"); !done) return done;
  if (auto done = database.execute("COMMIT"); !done) return done;
  const auto check = database.text("PRAGMA quick_check(1)");
  if (!check) return Failure(check.error());
  if (*check != "ok") {
    return unusable(database, kStoreCorrupt, "the file is damaged: " + *check + " (restore a copy, or move it away)");
  }
  const auto version = database.number("PRAGMA user_version");
  if (!version) return Failure(version.error());
  if (*version > kVersion) {
    return unusable(database, kStoreTooNew,
                    "the file has schema version " + std::to_string(*version) + ", this server knows " +
                        std::to_string(kVersion) + "; use a newer server");
  }
  return migrate(database, *version);
}

Result<RecordIndex::Changes> load_records(Database& database) {
  RecordIndex::Changes out;
  if (auto done = load_sandboxes(database, out); !done) return Failure(done.error());
  if (auto done = load_keys(database, out); !done) return Failure(done.error());
  if (auto done = load_snapshots(database, out); !done) return Failure(done.error());
  if (auto done = load_templates(database, out); !done) return Failure(done.error());
  return out;
}

Result<RecordWriter> RecordWriter::prepare(Database& database) {
  RecordWriter out;
  const std::pair<Statement*, std::string_view> statements[] = {
      // Status is left out of the update: it has a statement of its own, which may have run meanwhile.
      {&out.put_sandbox_,
       "INSERT INTO sandboxes (id, spec, metadata, state, reason, message, last_transition_at, created_at, expires_at, "
       "access_renew_seconds, execd_token, tenant, owner, egress_token) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
       "?10, "
       "?11, ?12, ?13, ?14) "
       "ON CONFLICT (id) DO UPDATE SET metadata = ?3, expires_at = ?9"},
      {&out.begin_removal_, "UPDATE sandboxes SET removing = 1 WHERE id = ?1"},
      {&out.forget_, "DELETE FROM sandboxes WHERE id = ?1 AND removing = 1"},
      {&out.put_status_,
       "UPDATE sandboxes SET state = ?2, reason = ?3, message = ?4, last_transition_at = ?5 WHERE id = ?1"},
      {&out.put_key_, "INSERT OR REPLACE INTO idempotency_keys VALUES (?1, ?2, ?3, ?4, ?5)"},
      {&out.erase_key_, "DELETE FROM idempotency_keys WHERE key = ?1"},
      {&out.put_snapshot_,
       "INSERT INTO snapshots (id, source_sandbox_id, name, restore_config, state, reason, message, "
       "last_transition_at, created_at, updated_at, tenant, owner) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, "
       "?11, ?12) "
       "ON CONFLICT (id) DO UPDATE SET restore_config = ?4, state = ?5, reason = ?6, message = ?7, "
       "last_transition_at = ?8, updated_at = ?10"},
      {&out.erase_snapshot_, "DELETE FROM snapshots WHERE id = ?1"},
      {&out.put_template_,
       "INSERT INTO templates VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT (id) DO UPDATE "
       "SET "
       "phase = ?5, manifest_ref = ?6, message = ?7, sandbox_id = ?8, snapshot_id = ?9, log = ?10, updated_at = ?12"},
      {&out.erase_template_, "DELETE FROM templates WHERE id = ?1"},
      {&out.touch_, "INSERT INTO flushes VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET count = count + 1"},
  };
  for (const auto& [statement, sql] : statements) {
    auto prepared = database.prepare(sql);
    if (!prepared) return Failure(prepared.error());
    *statement = std::move(*prepared);
  }
  return out;
}

Result<void> RecordWriter::write(const RecordIndex::Changes& changes) {
  for (const auto& [id, record] : changes.sandboxes) {
    if (!record) continue;  // out of sight: below
    put_sandbox_.reset()
        .text(1, id)
        .text(2, api::encode_create_sandbox(*record->spec, true))
        .text_or_null(3, encode_metadata(record->metadata))
        .text(4, record->status.state)
        .text(5, record->status.reason)
        .text(6, record->status.message)
        .number_or_null(7, to_number(record->status.last_transition_at))
        .number(8, to_number(record->created_at))
        .number_or_null(9, to_number(record->expires_at))
        .text(11, record->execd_token)
        .text(12, record->owner.tenant)
        .text(13, record->owner.subject)
        .text(14, record->egress_token);
    if (record->access_renew) put_sandbox_.number(10, record->access_renew->count());
    if (auto done = put_sandbox_.run(); !done) return done;
  }
  for (const std::string& id : changes.removals_begun) {
    if (auto done = begin_removal_.reset().text(1, id).run(); !done) return done;
  }
  for (const std::string& key : changes.keys_gone) {
    if (auto done = erase_key_.reset().text(1, key).run(); !done) return done;
  }
  for (const auto& [key, record] : changes.keys) {
    put_key_.reset().text(1, key).text(2, record.fingerprint).text(3, record.sandbox_id).text(4, record.answer);
    if (auto done = put_key_.number(5, to_number(record.created_at)).run(); !done) return done;
  }
  if (auto done = write_snapshots(changes); !done) return done;
  return write_templates(changes);
}

Result<void> RecordWriter::write_templates(const RecordIndex::Changes& changes) {
  for (const auto& [id, record] : changes.templates) {
    if (!record) {
      if (auto done = erase_template_.reset().text(1, id).run(); !done) return done;
      continue;
    }
    put_template_.reset()
        .text(1, id)
        .text(2, record->owner.tenant)
        .text(3, record->owner.subject)
        .text(4, api::encode_create_template(*record->spec))
        .text(5, record->status.phase)
        .text(6, record->status.manifest_ref)
        .text(7, record->status.message)
        .text(8, record->sandbox_id)
        .text(9, record->snapshot_id)
        .text(10, record->log)
        .number(11, to_number(record->created_at))
        .number(12, to_number(record->updated_at));
    if (auto done = put_template_.run(); !done) return done;
  }
  return {};
}

Result<void> RecordWriter::write_snapshots(const RecordIndex::Changes& changes) {
  for (const auto& [id, record] : changes.snapshots) {
    if (!record) {
      if (auto done = erase_snapshot_.reset().text(1, id).run(); !done) return done;
      continue;
    }
    const auto& status = record->status;
    put_snapshot_.reset()
        .text(1, id)
        .text(2, record->sandbox_id)
        .text(4, record->restore_config)
        .text(5, status.state)
        .text(6, status.reason)
        .text(7, status.message)
        .text(9, format_timestamp(record->created_at))
        .text(10, format_timestamp(status.last_transition_at.value_or(record->created_at)))
        .text(11, record->owner.tenant)
        .text(12, record->owner.subject);
    if (!record->name.empty()) put_snapshot_.text(3, record->name);
    if (status.last_transition_at) put_snapshot_.text(8, format_timestamp(*status.last_transition_at));
    if (auto done = put_snapshot_.run(); !done) return done;
  }
  return {};
}

Result<void> RecordWriter::write_status(const SandboxRecord& record) {
  return put_status_.reset()
      .text(1, record.id)
      .text(2, record.status.state)
      .text(3, record.status.reason)
      .text(4, record.status.message)
      .number_or_null(5, to_number(record.status.last_transition_at))
      .run();
}

Result<void> RecordWriter::forget(const std::string& id) { return forget_.reset().text(1, id).run(); }
Result<void> RecordWriter::touch() { return touch_.reset().run(); }

}  // namespace osb::server
