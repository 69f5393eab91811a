#include "execd/file/listing/listing.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/json_escape.h"
#include "execd/path/path.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

// About so much JSON makes a piece: a millisecond or two of work.
constexpr std::size_t kPiece = 256 * 1024;
constexpr std::size_t kBesidesPath = 160;
// So many names are looked at for it.
constexpr std::size_t kCandidates = 8 * 1024;
// Each is open while a piece is made.
constexpr std::size_t kDirectories = 32;

std::string escaped(std::string_view text) {
  std::string out;
  out.resize_and_overwrite(max_json_escaped_size(text.size()), [&](char* data, std::size_t) {
    return static_cast<std::size_t>(write_json_escaped(data, text) - data);
  });
  return out;
}

}  // namespace

Listing::Listing(std::optional<sys::Walker> walker, OwnerDatabase& owners)
    : walker_(std::move(walker)),
      writers_{FileInfoWriter(OwnerNames(owners)), FileInfoWriter(OwnerNames(owners)),
               FileInfoWriter(OwnerNames(owners))} {}

Result<std::unique_ptr<Listing>> Listing::list(const std::string& path, std::uint32_t depth, OwnerDatabase& owners) {
  struct stat st;
  if (::lstat(path.c_str(), &st) < 0) return sys::from_errno("list " + path, errno);
  if (!S_ISDIR(st.st_mode)) return fail(Code::InvalidRequest, "list " + path + ": not a directory");
  auto walker = sys::Walker::open(path, depth);
  if (!walker) return with_context("list", walker.error());
  return std::unique_ptr<Listing>(new Listing(std::move(*walker), owners));
}

Result<std::unique_ptr<Listing>> Listing::search(const std::string& path, std::string_view pattern,
                                                 OwnerDatabase& owners) {
  struct stat st;
  if (::lstat(path.c_str(), &st) < 0) return sys::from_errno("search " + path, errno);
  auto glob = Glob::compile(pattern.empty() ? "**" : pattern);
  if (!glob) {
    // The contract wants a 500 for this.
    Error error = glob.error();
    error.code = Code::Internal;
    return Failure(std::move(error));
  }
  std::optional<sys::Walker> walker;
  if (S_ISDIR(st.st_mode)) {
    auto opened = sys::Walker::open(path, UINT32_MAX);
    if (!opened) return with_context("search", opened.error());
    walker = std::move(*opened);
  }
  std::unique_ptr<Listing> listing(new Listing(std::move(walker), owners));
  listing->is_search_ = true;
  listing->root_ = path;
  const bool all = pattern.empty() || pattern == "*" || pattern == "**";
  if (!all) listing->glob_ = std::move(*glob);
  return listing;
}

Result<Listing::Batch> Listing::take() {
  const std::lock_guard lock(mutex_);
  Batch batch;
  batch.made.number = pieces_++;
  std::uint64_t directory = 0;  // the walker counts from 1
  std::size_t size = 0;
  for (std::size_t seen = 0; walker_ && size < kPiece && seen < kCandidates; ++seen) {
    auto next = walker_->next();
    if (!next) return Failure(next.error());
    if (*next == nullptr) return batch;
    const sys::Walker::Entry& entry = **next;
    if (is_search_ && (entry.is_directory || (glob_ && !glob_->matches(entry.name)))) continue;
    if (entry.directory_number != directory) {
      directory = entry.directory_number;
      UniqueFd own(::fcntl(entry.directory, F_DUPFD_CLOEXEC, 3));
      if (!own) return sys::from_errno("list " + std::string(entry.path), errno);
      const std::string_view parent = entry.path.substr(0, entry.path.size() - entry.name.size());
      batch.runs.push_back({std::move(own), escaped(parent), 0});
    }
    batch.names.append(entry.name).push_back('\0');
    batch.runs.back().end = batch.names.size();
    size += entry.path.size() + kBesidesPath;
    if (batch.runs.size() == kDirectories) break;
  }
  batch.made.more = walker_.has_value();
  return batch;
}

void Listing::append_root(std::string& out, FileInfoWriter& writer) {
  struct stat st;
  if (glob_ && !glob_->matches(base_name(root_))) return;
  if (::lstat(root_.c_str(), &st) < 0) return;
  out += ',';
  writer.append(out, root_, st);
}

Result<OrderedPieces::Made> Listing::make(std::size_t worker, std::string& out) {
  const auto batch = take();
  if (!batch) return Failure(batch.error());
  FileInfoWriter& writer = writers_[worker];
  if (!walker_ && batch->made.number == 0) append_root(out, writer);
  const char* name = batch->names.data();
  for (const Batch::Run& run : batch->runs) {
    const char* const end = batch->names.data() + run.end;
    while (name < end) {
      const std::string_view text = name;
      name += text.size() + 1;
      struct stat st;
      // Gone since its directory was read.
      if (::fstatat(run.directory.get(), text.data(), &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
      out += ',';
      writer.append(out, run.path, text, st);
    }
  }
  return batch->made;
}

}  // namespace osb::execd
