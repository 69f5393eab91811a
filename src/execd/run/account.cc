#include "execd/run/account.h"

#include <unistd.h>
#include <vector>

#include "base/json_escape.h"

namespace osb::execd {

Result<void> set_account(sys::UserDatabase& users, const std::string& name, std::optional<std::uint32_t> uid,
                         std::optional<std::uint32_t> gid, sys::SpawnPlan& plan) {
  const sys::User* user = nullptr;
  if (!name.empty()) {
    user = users.find_user(name);
    if (user == nullptr) return fail(Code::InvalidRequest, "user " + in_quotes(name) + ": not in /etc/passwd");
  } else if (!uid) {
    return {};
  } else if (!gid) {
    user = users.find_user(*uid);
  }
  plan.uid = user != nullptr ? user->uid : *uid;
  plan.gid = user != nullptr ? user->gid : gid.value_or(0);
  plan.groups = user != nullptr ? users.groups_of(*user) : std::vector<gid_t>();
  // Running as the current user needs no privilege.
  const bool ours = *plan.uid == ::geteuid() && (!gid || *gid == ::getegid());
  if (::geteuid() != 0 && ours) {
    plan.uid.reset();
    plan.gid.reset();
    plan.groups.reset();
  }
  return {};
}

}  // namespace osb::execd
