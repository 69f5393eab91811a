#pragma once

#include <string>

#include "base/error.h"

namespace osb::sandboxd {

// Makes the lowest layer of `host` sandboxes in `directory` (created 0755; its parent exists): all but /usr.
//
// /bin, /sbin, /lib.. link to /usr as on the host (Code::Unsupported where they are directories). /etc is made up:
// users and groups without passwords (root, `sandbox` (1000), nobody and those that packages expect), PAM rules for
// them, a prompt that names the sandbox, nsswitch.conf, os-release. From the host's /etc come only ssl/certs,
// ca-certificates.conf, alternatives, localtime, timezone, login.defs, ld.so.cache, ld.so.conf, ld.so.conf.d and
// java-*-openjdk, and of these only what every user of the host may read; and what apt and dpkg need, see
// host_packages.h. /home, /root, /run,
// /opt, /srv and the rest of /var are empty.
//
// Appears in one step or not at all. A directory that exists is left as it is: sandboxes may be using it. Certificates
// grow old in it, so name it after something that changes (the boot id) and remove old ones that are not in use.
Result<void> build_host_skeleton(const std::string& directory);

}  // namespace osb::sandboxd
