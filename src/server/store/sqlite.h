#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

struct sqlite3;
struct sqlite3_stmt;

// The little of SQLite that the store needs, with Results instead of codes. Not for use by two threads at once.
namespace osb::server {

// Reasons of store errors.
inline constexpr std::string_view kStoreInUse = "GENERAL::STORE_IN_USE";
inline constexpr std::string_view kStoreReadOnly = "GENERAL::STORE_READ_ONLY";
inline constexpr std::string_view kStoreFull = "GENERAL::STORE_FULL";
inline constexpr std::string_view kStoreCorrupt = "GENERAL::STORE_CORRUPT";
inline constexpr std::string_view kStoreTooNew = "GENERAL::STORE_TOO_NEW";
inline constexpr std::string_view kStoreFailed = "GENERAL::STORE_FAILED";

class Database;

// A prepared statement; lives no longer than its database. Bind by position from 1, run, read columns from 0.
class Statement {
 public:
  Statement() = default;
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();

  // Starts over: forgets the last run and its values. Calls chain.
  Statement& reset();
  Statement& text(int position, std::string_view value);
  Statement& number(int position, std::int64_t value);
  Statement& text_or_null(int position, const std::optional<std::string>& value);
  Statement& number_or_null(int position, std::optional<std::int64_t> value);

  // Runs to its end; rows, if any, are dropped.
  Result<void> run();
  // The next row, or false at the end.
  Result<bool> step();

  std::string_view text_at(int column) const;  // valid until the next step
  std::optional<std::string> optional_text_at(int column) const;
  std::int64_t number_at(int column) const;
  std::optional<std::int64_t> optional_number_at(int column) const;

 private:
  friend class Database;
  Statement(Database* database, sqlite3_stmt* handle) : database_(database), handle_(handle) {}
  Database* database_ = nullptr;
  sqlite3_stmt* handle_ = nullptr;
  int failed_ = 0;  // of a bind
};

class Database {
 public:
  // Makes directories (0700) and file (0600) where missing.
  static Result<std::unique_ptr<Database>> open(const std::filesystem::path& path, std::chrono::milliseconds busy_wait);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Result<void> execute(const std::string& sql);
  Result<Statement> prepare(std::string_view sql);
  // The first column of the first row; 0 without one.
  Result<std::int64_t> number(const std::string& sql);
  Result<std::string> text(const std::string& sql);

  // Never fails: after an error SQLite may have rolled back by itself.
  void rollback();
  // Pages in the write-ahead log after the last commit.
  int wal_pages() const { return wal_pages_; }
  // Copies the log into the file as far as readers allow. Only costs time: errors come back with the next commit.
  void checkpoint();

  Failure failure(int code, std::string_view doing) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  Database(sqlite3* handle, std::filesystem::path path) : handle_(handle), path_(std::move(path)) {}
  sqlite3* handle_;
  std::filesystem::path path_;
  int wal_pages_ = 0;
};

}  // namespace osb::server
