#include "execd/file/listing.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "execd/file/file_info.h"
#include "execd/file/path.h"
#include "sys/syscall.h"

namespace osb::execd {

Result<Listing> Listing::list(const std::string& path, std::uint32_t depth, OwnerNames names) {
  struct stat st;
  if (::lstat(path.c_str(), &st) < 0) return sys::from_errno("list " + path, errno);
  if (!S_ISDIR(st.st_mode)) return fail(Code::InvalidRequest, "list " + path + ": not a directory");
  auto walker = Walker::open(path, depth);
  if (!walker) return with_context("list", walker.error());
  return Listing(std::move(*walker), std::move(names));
}

Result<Listing> Listing::search(const std::string& path, std::string_view pattern, OwnerNames names) {
  struct stat st;
  if (::lstat(path.c_str(), &st) < 0) return sys::from_errno("search " + path, errno);
  auto glob = Glob::compile(pattern.empty() ? "**" : pattern);
  if (!glob) {
    // The contract wants a 500 for this.
    Error error = glob.error();
    error.code = Code::Internal;
    return Failure(std::move(error));
  }
  std::optional<Walker> walker;
  if (S_ISDIR(st.st_mode)) {
    auto opened = Walker::open(path, UINT32_MAX);
    if (!opened) return with_context("search", opened.error());
    walker = std::move(*opened);
  }
  Listing listing(std::move(walker), std::move(names));
  listing.glob_ = std::move(*glob);
  listing.root_ = path;
  return listing;
}

void Listing::append(std::string& out, std::string_view path, const struct stat& st) {
  if (!first_) out += ',';
  first_ = false;
  append_file_info(out, path, st, names_);
}

Result<bool> Listing::fill(std::string& out, std::size_t limit) {
  if (!started_) out += '[';
  started_ = true;
  struct stat st;
  if (!walker_) {
    if (glob_->matches(base_name(root_)) && ::lstat(root_.c_str(), &st) == 0) append(out, root_, st);
    out += ']';
    return false;
  }
  while (out.size() < limit) {
    auto entry = walker_->next();
    if (!entry) return Failure(entry.error());
    if (*entry == nullptr) {
      out += ']';
      return false;
    }
    const Walker::Entry& found = **entry;
    if (glob_ && (found.is_directory || !glob_->matches(found.name))) continue;
    // Gone since its directory was read.
    if (::fstatat(found.directory, found.name.data(), &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
    append(out, found.path, st);
  }
  return true;
}

}  // namespace osb::execd
