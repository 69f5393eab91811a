#include "sys/passwd.h"

#include <algorithm>
#include <array>

#include "base/parse_number.h"
#include "sys/text_file.h"

namespace osb::sys {
namespace {

// The fields between colons; false when there are not exactly N.
template <std::size_t N>
bool split(std::string_view line, std::array<std::string_view, N>& out) {
  for (std::size_t i = 0; i < N; ++i) {
    const std::size_t end = line.find(':');
    if ((end == std::string_view::npos) != (i + 1 == N)) return false;
    out[i] = line.substr(0, end);
    if (end != std::string_view::npos) line.remove_prefix(end + 1);
  }
  return true;
}

std::optional<std::uint32_t> parse_id(std::string_view text) {
  const auto id = parse_number<std::uint32_t>(text);
  // The highest value means "no change" to the calls that take it.
  return id && *id != ~std::uint32_t{0} ? id : std::nullopt;
}

}  // namespace

UserDatabase::UserDatabase(std::string passwd, std::string group)
    : passwd_path_(std::move(passwd)), group_path_(std::move(group)) {}

bool UserDatabase::Stamp::operator==(const Stamp& other) const {
  const auto same = [](const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; };
  return device == other.device && inode == other.inode && size == other.size && same(modified, other.modified) &&
         same(changed, other.changed);
}

UserDatabase::Stamp UserDatabase::stamp_of(const std::string& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) < 0) return {};
  return {st.st_dev, st.st_ino, st.st_size, st.st_mtim, st.st_ctim};
}

void UserDatabase::refresh_users() {
  const Stamp now = stamp_of(passwd_path_);  // before reading: a change meanwhile is seen next time
  if (passwd_stamp_ == now) return;
  passwd_stamp_ = now;
  users_.clear();
  user_by_name_.clear();
  user_by_id_.clear();
  const auto text = read_text(passwd_path_);
  if (!text) return;
  for_each_line(*text, [&](std::string_view line) {
    std::array<std::string_view, 7> f;  // name, password, uid, gid, comment, home, shell
    if (line.starts_with('#') || !split(line, f) || f[0].empty()) return;
    const auto uid = parse_id(f[2]);
    const auto gid = parse_id(f[3]);
    if (!uid || !gid) return;
    user_by_name_.try_emplace(std::string(f[0]), users_.size());
    user_by_id_.try_emplace(*uid, users_.size());
    users_.push_back({std::string(f[0]), *uid, *gid, std::string(f[5]), std::string(f[6])});
  });
}

void UserDatabase::refresh_groups() {
  const Stamp now = stamp_of(group_path_);
  if (group_stamp_ == now) return;
  group_stamp_ = now;
  group_by_name_.clear();
  group_by_id_.clear();
  memberships_.clear();
  const auto text = read_text(group_path_);
  if (!text) return;
  for_each_line(*text, [&](std::string_view line) {
    std::array<std::string_view, 4> f;  // name, password, gid, members
    if (line.starts_with('#') || !split(line, f) || f[0].empty()) return;
    const auto gid = parse_id(f[2]);
    if (!gid) return;
    group_by_name_.try_emplace(std::string(f[0]), *gid);
    group_by_id_.try_emplace(*gid, f[0]);
    for (std::string_view rest = f[3]; !rest.empty();) {
      const std::string_view member = rest.substr(0, rest.find(','));
      if (!member.empty()) memberships_.emplace(member, *gid);
      rest.remove_prefix(std::min(member.size() + 1, rest.size()));
    }
  });
}

const User* UserDatabase::find_user(std::string_view name) {
  refresh_users();
  const auto it = user_by_name_.find(name);
  return it == user_by_name_.end() ? nullptr : &users_[it->second];
}

const User* UserDatabase::find_user(uid_t uid) {
  refresh_users();
  const auto it = user_by_id_.find(uid);
  return it == user_by_id_.end() ? nullptr : &users_[it->second];
}

std::optional<gid_t> UserDatabase::find_group(std::string_view name) {
  refresh_groups();
  const auto it = group_by_name_.find(name);
  return it == group_by_name_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<std::string> UserDatabase::group_name(gid_t gid) {
  refresh_groups();
  const auto it = group_by_id_.find(gid);
  return it == group_by_id_.end() ? std::nullopt : std::optional(it->second);
}

std::vector<gid_t> UserDatabase::groups_of(const User& user) {
  refresh_groups();
  std::vector<gid_t> out{user.gid};
  const auto [begin, end] = memberships_.equal_range(user.name);
  for (auto it = begin; it != end; ++it) {
    if (std::ranges::find(out, it->second) == out.end()) out.push_back(it->second);
  }
  return out;
}

bool UserDatabase::is_private_group(uid_t uid, gid_t gid) {
  refresh_groups();
  const User* const user = find_user(uid);
  const auto group = group_by_id_.find(gid);
  if (user == nullptr || user->gid != gid || group == group_by_id_.end() || group->second != user->name) return false;
  const auto other_user = [&](const User& each) { return each.uid != uid && each.gid == gid; };
  const auto other_member = [&](const auto& entry) { return entry.second == gid && entry.first != user->name; };
  return std::ranges::none_of(users_, other_user) && std::ranges::none_of(memberships_, other_member);
}

}  // namespace osb::sys
