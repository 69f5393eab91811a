#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <unordered_map>

#include "sys/passwd.h"

namespace osb::execd {

// A user database that threads of the pool may ask at the same time.
class OwnerDatabase {
 public:
  explicit OwnerDatabase(std::string passwd = "/etc/passwd", std::string group = "/etc/group")
      : database_(std::move(passwd), std::move(group)) {}

  std::optional<std::string> user_name(uid_t uid);
  std::optional<std::string> group_name(gid_t gid);
  std::optional<uid_t> user_id(std::string_view name);
  std::optional<gid_t> group_id(std::string_view name);

 private:
  std::mutex mutex_;
  sys::UserDatabase database_;
};

// Names and ids of one request: asks the database once per id, which matters when a million files have the same owner.
// Not thread-safe, but may move between threads.
class OwnerNames {
 public:
  // The database outlives the object.
  explicit OwnerNames(OwnerDatabase& database) : database_(&database) {}

  // nullptr for an id without a name.
  const std::string* user_name(uid_t uid);
  const std::string* group_name(gid_t gid);
  // Of a name in the database, or the id itself if a decimal number was given.
  std::optional<uid_t> user_id(std::string_view name_or_id) const;
  std::optional<gid_t> group_id(std::string_view name_or_id) const;

 private:
  using Names = std::unordered_map<std::uint32_t, std::optional<std::string>>;

  OwnerDatabase* database_;
  Names users_;
  Names groups_;
};

}  // namespace osb::execd
