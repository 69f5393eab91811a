#include "execd/owner/owner_names.h"

#include "execd/owner/identity.h"

namespace osb::execd {
std::optional<std::string> OwnerDatabase::user_name(uid_t uid) {
  const std::lock_guard lock(mutex_);
  const sys::User* user = database_.find_user(uid);
  return user != nullptr ? std::optional(user->name) : std::nullopt;
}

std::optional<std::string> OwnerDatabase::group_name(gid_t gid) {
  const std::lock_guard lock(mutex_);
  return database_.group_name(gid);
}

std::optional<uid_t> OwnerDatabase::user_id(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const sys::User* user = database_.find_user(name);
  return user != nullptr ? std::optional(user->uid) : std::nullopt;
}

std::optional<gid_t> OwnerDatabase::group_id(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return database_.find_group(name);
}

const std::string* OwnerNames::user_name(uid_t uid) {
  const auto [at, fresh] = users_.try_emplace(uid);
  if (fresh) at->second = database_->user_name(uid);
  return at->second ? &*at->second : nullptr;
}

const std::string* OwnerNames::group_name(gid_t gid) {
  const auto [at, fresh] = groups_.try_emplace(gid);
  if (fresh) at->second = database_->group_name(gid);
  return at->second ? &*at->second : nullptr;
}

std::optional<uid_t> OwnerNames::user_id(std::string_view name_or_id) const {
  if (const auto known = database_->user_id(name_or_id)) return known;
  return parse_id(name_or_id);
}

std::optional<gid_t> OwnerNames::group_id(std::string_view name_or_id) const {
  if (const auto known = database_->group_id(name_or_id)) return known;
  return parse_id(name_or_id);
}

}  // namespace osb::execd
