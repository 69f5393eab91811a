#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace osb::execd {

// A user as /etc/passwd and /etc/group describe it. Read directly: a static program cannot load NSS modules.
struct Account {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary ones, the primary not included
};

struct AccountFiles {
  std::string passwd = "/etc/passwd";
  std::string group = "/etc/group";
};

// The first entry of that name, or of that id. Malformed lines are skipped.
std::optional<Account> find_account(std::string_view name, const AccountFiles& files = {});
std::optional<Account> find_account(uid_t uid, const AccountFiles& files = {});

}  // namespace osb::execd
