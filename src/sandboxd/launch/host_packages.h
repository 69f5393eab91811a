#pragma once

#include <string>

#include "base/error.h"

namespace osb::sandboxd {

// Lets apt and dpkg work in the `host` image, whose /usr is full of installed packages: the host's package database
// (/var/lib/dpkg), its package sources and keys, and empty directories for what apt fetches. `root` has /etc and /var.
// Files that only root of the host may read, login data for package servers (auth.conf) and files with a password in an
// address are left out. Does nothing on hosts without dpkg, and where a copy does not fit (256 MiB must be free).
Result<void> add_package_database(const std::string& root);

}  // namespace osb::sandboxd
