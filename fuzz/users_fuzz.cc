// passwd and group files of an image: everyone who makes images writes them. The first byte says where the one file
// ends and the other begins.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "sys/passwd.h"

namespace {

std::string path_of(const osb::UniqueFd& file) { return "/proc/self/fd/" + std::to_string(file.get()); }

osb::UniqueFd file_of(std::string_view text) {
  osb::UniqueFd file(::memfd_create("users", MFD_CLOEXEC));
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = text.size() * data[0] / 255;
  const osb::UniqueFd passwd = file_of(text.substr(0, cut));
  const osb::UniqueFd group = file_of(text.substr(cut));
  osb::sys::UserDatabase users(path_of(passwd), path_of(group));
  for (const uid_t uid : {0u, 1u, 1000u, 65535u}) {
    const osb::sys::User* user = users.find_user(uid);
    if (user == nullptr) continue;
    if (user->uid != uid) std::abort();
    const osb::sys::User copy = *user;
    const osb::sys::User* named = users.find_user(copy.name);
    if (named == nullptr || named->name != copy.name) std::abort();
    const auto groups = users.groups_of(copy);
    if (groups.empty() || groups.front() != copy.gid) std::abort();
    if (const auto name = users.group_name(copy.gid); name && !users.find_group(*name)) std::abort();
  }
  return 0;
}
