#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "execd/file/staged_file.h"
#include "execd/file/tar_reader.h"

namespace osb::execd {

// Ids of names in this sandbox; nothing for a name it does not know.
struct NameResolver {
  std::function<std::optional<uid_t>(std::string_view)> user;
  std::function<std::optional<gid_t>(std::string_view)> group;
};

// Unpacks an archive into a directory and nowhere else: absolute paths, "..", and paths that lead through a symlink
// (wherever that came from) are errors, and so are devices. Modes, owners, times and links are kept. A name that this
// sandbox knows wins over the numeric id; an owner that we may not or cannot give is left out, as tar does without
// root.
//
// A file gets its name when it is complete, replacing what was there, so that an archive that breaks off leaves whole
// files only. Directories get their attributes in finish(), when nothing more is put into them.
class Unpacker : public TarSink {
 public:
  Unpacker(UniqueFd root, NameResolver names) : root_(std::move(root)), names_(std::move(names)) {}

  Result<void> begin(const TarEntry& entry) override;
  Result<void> data(std::uint64_t offset, std::string_view bytes) override;
  Result<void> end() override;
  // After TarReader::finish() said that the archive was whole.
  Result<void> finish();

 private:
  struct Attributes {
    std::optional<uid_t> uid;
    std::optional<gid_t> gid;
    mode_t mode = 0;
    timespec mtime{};
  };
  struct Directory {
    std::string path;
    Attributes attributes;
  };

  Attributes attributes_of(const TarEntry& entry) const;
  // Makes the directory the entry goes into the current one and returns the entry's own name.
  Result<std::string> enter_parent_of(const std::string& path);
  Result<UniqueFd> open_directory(const std::string& path, bool create) const;
  Result<void> make_directory(const std::string& path, const TarEntry& entry);
  Result<void> make_hard_link(const std::string& name, const TarEntry& entry);
  // Makes something with `make(name)` under a hidden name and moves it over `name`.
  template <typename Make>
  Result<void> make_node(const std::string& name, const TarEntry& entry, Make make);

  UniqueFd root_;
  NameResolver names_;
  UniqueFd parent_;  // of parent_path_: most entries share it with the one before
  std::string parent_path_;
  std::optional<StagedFile> file_;
  std::string file_name_;
  std::uint64_t file_size_ = 0;
  Attributes file_attributes_;
  std::vector<Directory> directories_;
};

}  // namespace osb::execd
