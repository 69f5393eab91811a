#include "server/store/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <utility>

#include "base/unique_fd.h"
#include "sys/syscall.h"

namespace osb::server {
namespace {

std::string_view reason_of(int code) {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return kStoreInUse;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return kStoreReadOnly;
    case SQLITE_FULL:
      return kStoreFull;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return kStoreCorrupt;
    default:
      return kStoreFailed;
  }
}

std::string_view advice(std::string_view reason) {
  if (reason == kStoreInUse) return "another process holds it; stop that server or give this one another [store] path";
  if (reason == kStoreReadOnly) return "make the file and its directory writable for this user";
  if (reason == kStoreFull) return "free space on its file system";
  if (reason == kStoreCorrupt)
    return "the file is damaged or no database; restore a copy, or move it away to start empty";
  return "";
}

Error store_error(std::string_view reason, const std::filesystem::path& path, std::string why) {
  Error error(Code::Internal, "store " + path.string() + ": " + std::move(why));
  if (const std::string_view hint = advice(reason); !hint.empty()) error.message += " (" + std::string(hint) + ")";
  error.reason = reason;
  return error;
}

// 0700 for what is made here: records hold what clients wrote, credentials included.
Result<void> make_directories(const std::filesystem::path& directory) {
  if (directory.empty() || ::access(directory.c_str(), F_OK) == 0) return {};
  if (auto parent = make_directories(directory.parent_path()); !parent) return parent;
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return sys::from_errno("mkdir " + directory.string(), errno);
  }
  return {};
}

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_), handle_(std::exchange(other.handle_, nullptr)), failed_(other.failed_) {}

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(database_, other.database_);
  std::swap(handle_, other.handle_);
  std::swap(failed_, other.failed_);
  return *this;
}

Statement::~Statement() { sqlite3_finalize(handle_); }

Statement& Statement::reset() {
  sqlite3_reset(handle_);
  sqlite3_clear_bindings(handle_);
  failed_ = SQLITE_OK;
  return *this;
}

Statement& Statement::text(int position, std::string_view value) {
  // SQLite copies it; an empty view may have no pointer, which would mean NULL.
  const char* data = value.empty() ? "" : value.data();
  const int code = sqlite3_bind_text64(handle_, position, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) failed_ = code;
  return *this;
}

Statement& Statement::number(int position, std::int64_t value) {
  if (const int code = sqlite3_bind_int64(handle_, position, value); code != SQLITE_OK) failed_ = code;
  return *this;
}

Statement& Statement::text_or_null(int position, const std::optional<std::string>& value) {
  return value ? text(position, std::string_view(*value)) : *this;
}

Statement& Statement::number_or_null(int position, std::optional<std::int64_t> value) {
  return value ? number(position, *value) : *this;
}

Result<bool> Statement::step() {
  if (failed_ != SQLITE_OK) return database_->failure(failed_, "bind");
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  Failure failure = database_->failure(code, "write");
  sqlite3_reset(handle_);
  return failure;
}

Result<void> Statement::run() {
  for (;;) {
    const auto row = step();
    if (!row) return Failure(row.error());
    if (!*row) break;
  }
  sqlite3_reset(handle_);
  return {};
}

std::string_view Statement::text_at(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  if (data == nullptr) return "";
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

std::optional<std::string> Statement::optional_text_at(int column) const {
  if (sqlite3_column_type(handle_, column) == SQLITE_NULL) return std::nullopt;
  return std::string(text_at(column));
}

std::int64_t Statement::number_at(int column) const { return sqlite3_column_int64(handle_, column); }

std::optional<std::int64_t> Statement::optional_number_at(int column) const {
  if (sqlite3_column_type(handle_, column) == SQLITE_NULL) return std::nullopt;
  return number_at(column);
}

Result<std::unique_ptr<Database>> Database::open(const std::filesystem::path& path,
                                                 std::chrono::milliseconds busy_wait) {
  const auto unusable = [&](const Error& cause) {
    const int e = cause.sys_errno;
    const bool read_only = e == EROFS || e == EACCES || e == EPERM;
    return Failure(store_error(read_only     ? kStoreReadOnly
                               : e == ENOSPC ? kStoreFull
                                             : kStoreFailed,
                               path, cause.message));
  };
  if (auto made = make_directories(path.parent_path()); !made) return unusable(made.error());
  // Made here, so that it has its mode from the start; SQLite gives the log the same one.
  if (UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)); file.get() < 0) {
    return unusable(sys::from_errno("open", errno).error());
  }
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<Database> database(new Database(handle, path));
  if (code != SQLITE_OK) return database->failure(code, "open");
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, static_cast<int>(busy_wait.count()));
  sqlite3_wal_hook(
      handle,
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<Database*>(self)->wal_pages_ = pages;
        return SQLITE_OK;
      },
      database.get());
  return database;
}

Database::~Database() { sqlite3_close_v2(handle_); }

Failure Database::failure(int code, std::string_view doing) const {
  std::string why = std::string(doing) + ": ";
  why += handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  if (const int e = handle_ != nullptr ? sqlite3_system_errno(handle_) : 0; e != 0 && (code & 0xff) == SQLITE_IOERR) {
    why += " (" + std::generic_category().message(e) + ")";
  }
  return Failure(store_error(reason_of(code), path_, std::move(why)));
}

Result<void> Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return failure(code, sql.substr(0, sql.find_first_of("(\n")));
  return {};
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* handle = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                      &handle, nullptr);
  if (code != SQLITE_OK) return failure(code, "prepare");
  return Statement(this, handle);
}

Result<std::int64_t> Database::number(const std::string& sql) {
  auto statement = prepare(sql);
  if (!statement) return Failure(statement.error());
  const auto row = statement->step();
  if (!row) return Failure(row.error());
  return *row ? statement->number_at(0) : 0;
}

Result<std::string> Database::text(const std::string& sql) {
  auto statement = prepare(sql);
  if (!statement) return Failure(statement.error());
  const auto row = statement->step();
  if (!row) return Failure(row.error());
  return *row ? std::string(statement->text_at(0)) : "";
}

void Database::rollback() { sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr); }

void Database::checkpoint() {
  sqlite3_wal_checkpoint_v2(handle_, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  wal_pages_ = 0;
}

}  // namespace osb::server
