#include "sandboxd/launch/host_skeleton.h"

#include <array>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

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
    {"/dev", 0755},      {"/etc", 0755},       {"/etc/ssl", 0755},   {"/home", 0755},    {"/home/sandbox", 0755, 1000},
    {"/media", 0755},    {"/mnt", 0755},       {"/opt", 0755},       {"/proc", 0555},    {"/root", 0700},
    {"/run", 0755},      {"/run/lock", 01777}, {"/srv", 0755},       {"/sys", 0555},     {"/tmp", 01777},
    {"/usr", 0755},      {"/var", 0755},       {"/var/cache", 0755}, {"/var/lib", 0755}, {"/var/log", 0755},
    {"/var/tmp", 01777},
};

struct Text {
  const char* path;
  const char* text;
};
constexpr Text kFiles[] = {
    {"/etc/passwd",
     "root:x:0:0:root:/root:/bin/sh\n"
     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
     "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n"},
    {"/etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\nsandbox:x:1000:\n"},
    {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
    {"/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"},
    {"/etc/resolv.conf", ""},
    {"/etc/hostname", "sandbox\n"},
    {"/etc/ssl/openssl.cnf", "[req]\ndistinguished_name = name\n[name]\n"},
};

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
    "/etc/ssl/certs", "/etc/ca-certificates.conf", "/etc/alternatives", "/etc/localtime",
    "/etc/timezone",  "/etc/ld.so.cache",          "/etc/ld.so.conf",   "/etc/ld.so.conf.d",
};

Result<void> make_directory(const std::string& path, mode_t mode, uid_t owner = 0) {
  if (::mkdir(path.c_str(), mode) < 0) return sys::from_errno("make " + path, errno);
  if (::chmod(path.c_str(), mode) < 0 || ::chown(path.c_str(), owner, owner) < 0) {
    return sys::from_errno("set mode of " + path, errno);
  }
  return {};
}

Result<void> make_link(const std::string& path, const std::string& to) {
  if (::symlink(to.c_str(), path.c_str()) < 0) return sys::from_errno("make link " + path, errno);
  return {};
}

Result<void> write_file(const std::string& path, std::string_view text) {
  auto file = sys::open_at(AT_FDCWD, path, O_CREAT | O_EXCL | O_WRONLY, 0644);
  if (!file) return Failure(file.error());
  if (::fchmod(file->get(), 0644) < 0) return sys::from_errno("set mode of " + path, errno);
  while (!text.empty()) {
    const ssize_t done = ::write(file->get(), text.data(), text.size());
    if (done < 0) return sys::from_errno("write " + path, errno);
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return {};
}

// A regular file that every user of the host may read: its content. Anything else is left out.
Result<void> copy_public_file(const std::string& from, const std::string& to) {
  auto file = sys::open_at(AT_FDCWD, from, O_RDONLY | O_NONBLOCK);
  if (!file) return file.error().sys_errno == ENOENT ? Result<void>() : Failure(file.error());
  struct stat st{};
  if (::fstat(file->get(), &st) < 0) return sys::from_errno("stat " + from, errno);
  if (!S_ISREG(st.st_mode) || (st.st_mode & S_IROTH) == 0) return {};
  std::string text;
  std::array<char, 65536> buffer;
  for (ssize_t got; (got = ::read(file->get(), buffer.data(), buffer.size())) != 0;) {
    if (got < 0) return sys::from_errno("read " + from, errno);
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return write_file(to, text);
}

// Links into /usr, or to a neighbour, lead to the same thing inside. Of others the content is taken.
bool link_works_inside(const fs::path& target, const fs::path& from) {
  const fs::path whole = (from.parent_path() / target).lexically_normal();
  return whole.string().starts_with("/usr/") || whole.string().starts_with("/etc/alternatives/") ||
         whole.parent_path() == from.parent_path();
}

Result<void> copy_from_host(const fs::path& from, const std::string& to) {
  struct stat st{};
  if (::lstat(from.c_str(), &st) < 0) return {};
  if (S_ISLNK(st.st_mode)) {
    std::error_code failed;
    const fs::path target = fs::read_symlink(from, failed);
    if (failed) return sys::from_errno("read link " + from.string(), failed.value());
    if (link_works_inside(target, from)) return make_link(to, target.string());
  }
  if (!S_ISDIR(st.st_mode)) return copy_public_file(from.string(), to);
  if ((st.st_mode & S_IXOTH) == 0) return {};
  if (auto made = make_directory(to, 0755); !made) return made;
  std::error_code failed;
  for (fs::directory_iterator it(from, failed), end; !failed && it != end; it.increment(failed)) {
    if (auto copied = copy_from_host(it->path(), to + "/" + it->path().filename().string()); !copied) return copied;
  }
  if (failed) return sys::from_errno("read " + from.string(), failed.value());
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
    if (auto made = write_file(root + file.path, file.text); !made) return made;
  }
  for (const Link& link : kLinks) {
    if (auto made = make_link(root + link.path, link.to); !made) return made;
  }
  for (const char* path : kFromHost) {
    if (auto copied = copy_from_host(path, root + path); !copied) return copied;
  }
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
