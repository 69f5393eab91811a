#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sandboxd/disk/disk_trees.h"

namespace osb::sandboxd {

// A directory of ours whose entries, themselves directories, appear and disappear whole, whenever the process ends:
// they are made and taken apart in .tmp/, and one rename leads in or out. Root's alone (0700), because what lies in it
// can be setuid. Calls may come from any thread; there must be no second process.
class StagedDirectory {
 public:
  // An entry without a name yet; gone with the object unless it was published.
  class Staged {
   public:
    Staged(Staged&& other) noexcept
        : trees_(std::move(other.trees_)),
          tmp_(other.tmp_),
          name_(std::exchange(other.name_, {})),
          fd_(std::move(other.fd_)) {}
    Staged& operator=(Staged&&) = delete;
    ~Staged();
    int fd() const { return fd_.get(); }

   private:
    friend class StagedDirectory;
    Staged(DiskTrees trees, int tmp, std::string name, UniqueFd fd)
        : trees_(std::move(trees)), tmp_(tmp), name_(std::move(name)), fd_(std::move(fd)) {}
    DiskTrees trees_;
    int tmp_;
    std::string name_;  // empty: published
    UniqueFd fd_;
  };

  // Makes it if needed, and removes what a crash left in .tmp/ (what cannot be removed is logged and stays).
  // With `trees` every entry is a tree of the disk; the image of one that cannot be mounted is logged.
  static Result<StagedDirectory> open(const std::filesystem::path& path, DiskTrees trees = {});

  const std::filesystem::path& path() const { return path_; }
  int fd() const { return directory_.get(); }

  Result<Staged> stage(mode_t mode, std::uint64_t bytes = 0) const;  // must not outlive the directory; bytes: its limit
  // Names it; durable when it returns, provided its contents are. Code::Conflict if the name is taken.
  Result<void> publish(Staged& staged, const std::string& name) const;

  // Takes the name away; durable. Code::NotFound. The entry is removed with the returned object.
  Result<Staged> withdraw(const std::string& name) const;
  // The same in two steps, for callers that hold a lock during the first: quick, and durable only after sync(), before
  // which what was taken out must not go.
  Result<Staged> take_out(const std::string& name) const;
  Result<void> sync() const;

  Result<std::vector<std::string>> names() const;  // sorted; those starting with a dot are not entries

 private:
  StagedDirectory(std::filesystem::path path, DiskTrees trees, UniqueFd directory, UniqueFd tmp)
      : path_(std::move(path)), trees_(std::move(trees)), directory_(std::move(directory)), tmp_(std::move(tmp)) {}

  std::filesystem::path path_;
  DiskTrees trees_;
  UniqueFd directory_;
  UniqueFd tmp_;
};

// A whole small file, for the records in such directories. Later: the caller sees to it that it gets to the disk.
enum class Sync { Now, Later };
Result<void> write_file(int directory, const std::string& name, std::string_view text, Sync sync);
Result<void> sync_directory(int directory, const std::string& what);

}  // namespace osb::sandboxd
