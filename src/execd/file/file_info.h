#pragma once

#include <string>
#include <string_view>
#include <sys/stat.h>

#include "execd/file/owner_names.h"

namespace osb::execd {

// Appends the contract's FileInfo as JSON. `path` is what the client is told; the symlink itself is described, not what
// it points to. Written by hand: listings are made of hundreds of thousands of these.
void append_file_info(std::string& out, std::string_view path, const struct stat& st, OwnerNames& names);

}  // namespace osb::execd
