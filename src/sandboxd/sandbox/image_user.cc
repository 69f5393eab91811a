#include "sandboxd/sandbox/image_user.h"

#include <charconv>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/openat2.h"
#include "sys/passwd.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

constexpr std::uint32_t kLargestId = 65535;

// The file as the stacked layers show it; nothing if no layer has it. Links in an image lead nowhere but into it. A
// whiteout (a character device) hides the file of the layers below. A layer that cannot be read is an error: the file
// of a lower layer would give the name another user.
Result<UniqueFd> open_in_layers(const std::string& name, const std::vector<std::string>& layers) {
  for (const std::string& layer : layers) {
    const auto root = sys::open_at(AT_FDCWD, layer, O_PATH | O_DIRECTORY);
    if (!root) return Failure(root.error());
    auto file = sys::openat2(root->get(), name, O_PATH, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    if (!file) {
      const int error = file.error().sys_errno;
      if (error == ENOENT || error == ENOTDIR || error == ELOOP) continue;
      return with_context("layer " + layer, file.error());
    }
    struct stat info{};
    if (::fstat(file->get(), &info) == 0 && S_ISREG(info.st_mode)) return file;
    return UniqueFd();
  }
  return UniqueFd();
}

std::string path_of(const UniqueFd& fd) {
  return fd.get() < 0 ? "/dev/null" : "/proc/self/fd/" + std::to_string(fd.get());
}

Result<std::optional<std::uint32_t>> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::nullopt;
  if (error != std::errc() || value > kLargestId) {
    return fail(Code::InvalidRequest,
                "user '" + std::string(text) + "': ids inside a sandbox go up to " + std::to_string(kLargestId));
  }
  return value;
}

}  // namespace

Result<ImageUser> find_image_user(std::string_view text, const std::vector<std::string>& layers) {
  ImageUser out;
  if (text.empty() || text == "0" || text == "root" || text == "0:0" || text == "root:root") {
    out.groups = {0};
    out.home = "/root";
    return out;
  }
  const auto passwd = open_in_layers("etc/passwd", layers);
  if (!passwd) return Failure(passwd.error());
  const auto group = open_in_layers("etc/group", layers);
  if (!group) return Failure(group.error());
  sys::UserDatabase users(path_of(*passwd), path_of(*group));
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  auto uid = number(name);
  if (!uid) return Failure(uid.error());
  const sys::User* user = *uid ? users.find_user(static_cast<uid_t>(**uid)) : users.find_user(name);
  if (user == nullptr && !*uid) {
    return fail(Code::InvalidRequest, "user '" + std::string(name) + "' is not in the image's /etc/passwd");
  }
  if (user != nullptr && (user->uid > kLargestId || user->gid > kLargestId)) {
    return fail(Code::InvalidRequest,
                "user '" + std::string(name) + "' has an id beyond " + std::to_string(kLargestId));
  }
  out.uid = user != nullptr ? user->uid : **uid;
  if (user != nullptr) {
    out.gid = user->gid;
    if (!user->home.empty()) out.home = user->home;
  }
  if (colon == std::string_view::npos) {
    out.groups = user != nullptr ? users.groups_of(*user) : std::vector<gid_t>{out.gid};
    return out;
  }
  const std::string_view group_name = text.substr(colon + 1);
  auto gid = number(group_name);
  if (!gid) return Failure(gid.error());
  const auto found = *gid ? *gid : users.find_group(group_name);
  if (!found || *found > kLargestId) {
    return fail(Code::InvalidRequest, "group '" + std::string(group_name) + "' is not in the image's /etc/group");
  }
  out.gid = *found;
  out.groups = {out.gid};
  return out;
}

}  // namespace osb::sandboxd
