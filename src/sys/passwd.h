#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/types.h>
#include <unordered_map>
#include <vector>

namespace osb::sys {

struct User {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string home;   // may be empty
  std::string shell;  // may be empty
};

// /etc/passwd and /etc/group, read directly: getpwnam() loads NSS modules, which a static program in a foreign image
// cannot. Lines that are broken are skipped; of two entries with one name or id the first counts, as in libc.
//
// Files are looked at (one stat each) at every question and read again only when they have changed, so that users made
// at run time are found and listing a directory does not parse them for every entry. A missing file is an empty one.
// Not thread-safe.
class UserDatabase {
 public:
  explicit UserDatabase(std::string passwd = "/etc/passwd", std::string group = "/etc/group");

  // Valid until the next call.
  const User* find_user(std::string_view name);
  const User* find_user(uid_t uid);
  std::optional<gid_t> find_group(std::string_view name);
  std::optional<std::string> group_name(gid_t gid);
  // For SpawnPlan::groups: the primary group first, then those that list the user, each once.
  std::vector<gid_t> groups_of(const User& user);
  // Whether `gid` is the primary group of the user, has the user's name, and no other user is in it.
  bool is_private_group(uid_t uid, gid_t gid);

 private:
  // Attributes that change when a file is replaced or written.
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = -1;
    timespec modified{};
    timespec changed{};
    bool operator==(const Stamp& other) const;
  };
  static Stamp stamp_of(const std::string& path);

  void refresh_users();
  void refresh_groups();

  std::string passwd_path_, group_path_;
  std::optional<Stamp> passwd_stamp_, group_stamp_;
  std::vector<User> users_;
  std::map<std::string, std::size_t, std::less<>> user_by_name_;
  std::unordered_map<uid_t, std::size_t> user_by_id_;
  std::map<std::string, gid_t, std::less<>> group_by_name_;
  std::unordered_map<gid_t, std::string> group_by_id_;
  std::multimap<std::string, gid_t, std::less<>> memberships_;  // user -> group
};

}  // namespace osb::sys
