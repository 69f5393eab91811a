#include "sandboxd/launch/host_skeleton.h"

#include <filesystem>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "sandboxd/launch/host_copy.h"
#include "sandboxd/launch/host_packages.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;

struct Directory {
  const char* path;
  mode_t mode;
  uid_t owner = 0;
};
constexpr Directory kDirectories[] = {
    {"/dev", 0755},       {"/etc", 0755},     {"/etc/ssl", 0755},
    {"/etc/pam.d", 0755}, {"/home", 0755},    {"/home/sandbox", 0755, 1000},
    {"/media", 0755},     {"/mnt", 0755},     {"/opt", 0755},
    {"/proc", 0555},      {"/root", 0700},    {"/run", 0755},
    {"/run/lock", 01777}, {"/srv", 0755},     {"/sys", 0555},
    {"/tmp", 01777},      {"/usr", 0755},     {"/var", 0755},
    {"/var/cache", 0755}, {"/var/lib", 0755}, {"/var/log", 0755},
    {"/var/tmp", 01777},
};

struct Text {
  const char* path;
  const char* text;
  mode_t mode = 0644;
  gid_t group = 0;
};
constexpr gid_t kShadow = 42;
// Users and groups with the numbers that Debian gives them, so that packages find those they expect. No user has a
// password.
constexpr Text kFiles[] = {
    {"/etc/passwd",
     "root:x:0:0:root:/root:/bin/bash\n"
     "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
     "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
     "sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
     "man:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
     "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
     "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
     "backup:x:34:34:backup:/var/backups:/usr/sbin/nologin\n"
     "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"
     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
     "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/bash\n"},
    {"/etc/group",
     "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nmail:x:8:\nman:x:12:\nkmem:x:15:\n"
     "dialout:x:20:\ncdrom:x:24:\nsudo:x:27:\naudio:x:29:\nwww-data:x:33:\nbackup:x:34:\nsrc:x:40:\nshadow:x:42:\n"
     "utmp:x:43:\nvideo:x:44:\nplugdev:x:46:\nstaff:x:50:\ngames:x:60:\nusers:x:100:\nnogroup:x:65534:\n"
     "sandbox:x:1000:\n"},
    {"/etc/shadow",
     "root:*:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\nbin:*:19000:0:99999:7:::\nsys:*:19000:0:99999:7:::\n"
     "man:*:19000:0:99999:7:::\nmail:*:19000:0:99999:7:::\nwww-data:*:19000:0:99999:7:::\n"
     "backup:*:19000:0:99999:7:::\n_apt:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n"
     "sandbox:*:19000:0:99999:7:::\n",
     0640, kShadow},
    {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"},
    {"/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"},
    {"/etc/resolv.conf", ""},
    {"/etc/hostname", "sandbox\n"},
    {"/etc/ssl/openssl.cnf", "[req]\ndistinguished_name = name\n[name]\n"},
    // The prompt names the sandbox, which is the host name.
    {"/etc/bash.bashrc", "[ -z \"$PS1\" ] || PS1='\\u@\\h:\\w\\$ '\n"},
    {"/etc/profile",
     "if [ -n \"$BASH_VERSION\" ]; then\n  . /etc/bash.bashrc\nelif [ -n \"$PS1\" ]; then\n"
     "  PS1=\"$(id -un)@$(hostname)\\$ \"\nfi\n"
     "for file in /etc/profile.d/*.sh; do\n  [ ! -r \"$file\" ] || . \"$file\"\ndone\nunset file\n"},
    {"/root/.bashrc", ". /etc/bash.bashrc\n"},
    {"/home/sandbox/.bashrc", ". /etc/bash.bashrc\n"},
    {"/etc/pam.d/other",
     "auth required pam_unix.so\naccount required pam_unix.so\npassword required pam_unix.so\n"
     "session required pam_unix.so\n"},
};

// Programs with which root becomes another user or changes one. Others have no way to: they cannot gain privileges.
constexpr const char* kRootOnly[] = {"su",   "su-l", "runuser", "runuser-l", "sudo",
                                     "chsh", "chfn", "passwd",  "chpasswd",  "newusers"};
constexpr std::string_view kRootOnlyRules =
    "auth sufficient pam_rootok.so\n"
    "auth optional pam_echo.so Only root can do this: programs in a sandbox gain no privileges. Run the command as "
    "root,"
    " or name the user when you start it.\n"
    "@include other\n";

struct Link {
  const char* path;
  const char* to;
};
constexpr Link kLinks[] = {
    {"/etc/mtab", "/proc/self/mounts"},
    {"/etc/os-release", "../usr/lib/os-release"},
    {"/var/run", "/run"},
    {"/var/lock", "/run/lock"},
};

// All that comes from the host's /etc.
constexpr const char* kFromHost[] = {
    "/etc/ssl/certs",
    "/etc/ca-certificates.conf",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/login.defs",
    "/etc/fonts",
    // Debian's Mono and matplotlib do not start without their settings.
    "/etc/mono",
    "/etc/matplotlibrc",
};

// Debian's JDKs keep their settings in /etc/java-17-openjdk and the like, and do not start without them.
Result<void> copy_java_settings(const std::string& root) {
  std::error_code failed;
  for (fs::directory_iterator it("/etc", failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with("java-") || !name.ends_with("-openjdk")) continue;
    if (auto copied = copy_from_host(it->path(), root + "/etc/" + name); !copied) return copied;
  }
  return {};
}

// /bin, /sbin, /lib, /lib64, ..: as on the host.
Result<void> copy_usr_links(const std::string& root) {
  for (const char* path : {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}) {
    struct stat st{};
    if (::lstat(path, &st) < 0) continue;
    std::error_code failed;
    const fs::path target = S_ISLNK(st.st_mode) ? fs::read_symlink(path, failed) : fs::path();
    if (!(fs::path("/") / target).lexically_normal().string().starts_with("/usr/")) {
      return fail(Code::Unsupported,
                  fmt::format("image host: {} of this host is no link into /usr; use another image", path));
    }
    if (auto made = make_link(root + path, target.string()); !made) return made;
  }
  return {};
}

Result<void> fill(const std::string& root) {
  for (const Directory& directory : kDirectories) {
    if (auto made = make_directory(root + directory.path, directory.mode, directory.owner); !made) return made;
  }
  for (const Text& file : kFiles) {
    if (auto made = write_file(root + file.path, file.text, file.mode, file.group); !made) return made;
  }
  for (const char* program : kRootOnly) {
    if (auto made = write_file(std::string(root) + "/etc/pam.d/" + program, kRootOnlyRules); !made) return made;
  }
  std::error_code ignored;
  if (fs::exists("/usr/bin/sudo", ignored)) {
    if (auto made = write_file(root + "/etc/sudoers", "root ALL=(ALL:ALL) ALL\n", 0440); !made) return made;
  }
  for (const Link& link : kLinks) {
    if (auto made = make_link(root + link.path, link.to); !made) return made;
  }
  for (const char* path : kFromHost) {
    if (auto copied = copy_from_host(path, root + path); !copied) return copied;
  }
  if (auto copied = copy_java_settings(root); !copied) return copied;
  if (auto added = add_package_database(root); !added) return added;
  return copy_usr_links(root);
}

}  // namespace

Result<void> build_host_skeleton(const std::string& directory) {
  std::error_code ignored;
  if (fs::exists(directory, ignored)) return {};
  std::string temporary = directory + ".XXXXXX";
  if (::mkdtemp(temporary.data()) == nullptr) return sys::from_errno("make " + temporary, errno);
  Result<void> done = fill(temporary);
  if (done && ::chmod(temporary.c_str(), 0755) < 0) done = sys::from_errno("set mode of " + temporary, errno);
  // Two callers at a time: the second finds the directory full, which is as good.
  if (done && ::rename(temporary.c_str(), directory.c_str()) < 0 && errno != EEXIST && errno != ENOTEMPTY) {
    done = sys::from_errno("rename to " + directory, errno);
  }
  fs::remove_all(temporary, ignored);
  if (!done) return with_context("build the skeleton of the host image", done.error());
  return done;
}

}  // namespace osb::sandboxd
