#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/error.h"

// Making files of the `host` image's lowest layer, from nothing or from files of the host. All fail when the path
// exists already.
namespace osb::sandboxd {

Result<void> make_directory(const std::string& path, mode_t mode, uid_t owner = 0);
Result<void> make_link(const std::string& path, const std::string& to);
Result<void> write_file(const std::string& path, std::string_view text, mode_t mode = 0644, gid_t group = 0);

enum class Take : std::uint8_t {
  Copy,
  WithoutCredentials,  // files in which holds_credentials() finds something are left out
  Share,  // the same file on disk where that is possible: quick, for many files that are replaced as a whole
};

// A file, or a directory with all below it, as far as every user of the host may read it; the rest is left out without
// a word, as is what does not exist. Links into /usr, /etc/alternatives, or to a neighbour stay links; of others the
// content is taken.
Result<void> copy_from_host(const std::filesystem::path& from, const std::string& to, Take how = Take::Copy);

// An address with a user name or a password in it ("https://user:secret@host/").
bool holds_credentials(std::string_view text);

}  // namespace osb::sandboxd
