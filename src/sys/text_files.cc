#include "sys/text_files.h"

#include <algorithm>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>

#include "base/unique_fd.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sys {
namespace {

Result<std::vector<std::string>> names_in(int directory, const std::string& path, std::string_view suffix) {
  // fdopendir takes the descriptor; the caller keeps its own.
  UniqueFd copy(::fcntl(directory, F_DUPFD_CLOEXEC, 0));
  if (!copy) return from_errno("list " + path, errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(copy.get()), &::closedir);
  if (!listing) return from_errno("list " + path, errno);
  (void)copy.release();
  std::vector<std::string> out;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(listing.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (!name.starts_with('.') && name.ends_with(suffix)) out.emplace_back(name);
  }
  if (errno != 0) return from_errno("list " + path, errno);
  std::ranges::sort(out);
  return out;
}

}  // namespace

Result<std::vector<TextFile>> read_text_files(const std::string& directory, std::string_view suffix,
                                              const TextFileLimits& limits) {
  const UniqueFd dir(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir) return from_errno("open directory " + directory, errno);
  const auto names = names_in(dir.get(), directory, suffix);
  if (!names) return Failure(names.error());
  if (names->size() > limits.files) {
    return fail(Code::TooLarge,
                directory + ": more than " + std::to_string(limits.files) + " files end with " + std::string(suffix));
  }
  std::vector<TextFile> out;
  for (const std::string& name : *names) {
    const std::string path = directory + "/" + name;
    // O_NONBLOCK: a FIFO of that name must not stop the caller.
    const UniqueFd fd(::openat(dir.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd) return from_errno("open " + path, errno);
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0) return from_errno("stat " + path, errno);
    if (!S_ISREG(info.st_mode)) continue;
    auto text = read_text(fd.get(), path, limits.file_bytes);
    if (!text) return Failure(text.error());
    out.push_back({name, std::move(*text)});
  }
  return out;
}

}  // namespace osb::sys
