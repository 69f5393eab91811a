#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "archive/entry_name.h"
#include "archive/tar_reader.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "sys/staged_file.h"

namespace osb::archive {

// How an archive is unpacked. The defaults are the strictest choice; README.md has the rules that no option changes.
struct UnpackRules {
  // Names the archive in errors: "layer", "archive".
  std::string what = "archive";
  NameRules names;

  // Shared: others use the directory. A file or link appears complete, in one step, and replaces anything but a
  // directory; directories are closed to others until finish().
  // Private: no other process reads the tree, and the caller removes it after an error. Entries are made in place,
  // which is faster, and a later entry replaces an earlier one of the same name, also a directory.
  enum class Target { Shared, Private } target = Target::Shared;

  // Ignore: everything belongs to the caller.
  // Attempt: as the archive says, a known name before the number; an owner that we may not give is left out, as tar
  //          does without root.
  // Require: the numbers of the archive, each at most `max_id`; a failing chown is an error.
  enum class Owners { Ignore, Attempt, Require } owners = Owners::Ignore;
  std::function<std::optional<uid_t>(std::string_view)> user_id;   // of Attempt; nothing for an unknown name
  std::function<std::optional<gid_t>(std::string_view)> group_id;  // of Attempt
  std::uint64_t max_id = UINT32_MAX - 1;

  mode_t mode_mask = 0777;    // 07777 keeps setuid, setgid and sticky bits
  mode_t parent_mode = 0755;  // of directories that the archive does not mention, less the umask

  enum class Special { Refuse, Skip, Create };
  Special devices = Special::Refuse;
  Special fifos = Special::Create;

  // user.* attributes, ACLs and file capabilities. Others (trusted.*, security.*) would speak to the kernel in the name
  // of the archive: they are left out, always.
  bool attributes = false;

  // More is Code::TooLarge. The bytes are the sizes of all files together, holes included.
  std::uint64_t max_entries = UINT64_MAX;
  std::uint64_t max_bytes = INT64_MAX;
};

// Unpacks an archive into a directory and nowhere else, with any contents. All calls block.
class Unpacker : public TarSink {
 public:
  Unpacker(UniqueFd root, UnpackRules rules);

  Result<void> begin(const TarEntry& entry) override;
  Result<void> data(std::uint64_t offset, std::string_view bytes) override;
  Result<void> end() override;
  // After TarReader::finish() said that the archive was whole: directories get their owners, modes and times, when
  // nothing more is put into them.
  Result<void> finish();

  // For callers that give some entries a meaning of their own.
  Result<EntryName> name_of(const TarEntry& entry) const;
  // The open directory that the entry goes into; missing ones are made. Valid until the next call of any function.
  Result<int> enter_parent_of(const EntryName& name);
  Failure refused(std::string_view entry, std::string_view why) const { return refuse_entry(rules_.what, entry, why); }

  std::uint64_t entries() const { return entries_; }
  // About what it takes on disk: files in whole blocks, one block for every other entry.
  std::uint64_t disk_bytes() const { return disk_bytes_; }

 private:
  struct Attributes {
    std::optional<uid_t> uid;
    std::optional<gid_t> gid;
    mode_t mode = 0;
    timespec mtime{};
    std::vector<std::pair<std::string, std::string>> attributes;
  };

  Result<Attributes> attributes_of(const TarEntry& entry) const;
  Result<void> begin_file(EntryName name, const TarEntry& entry);
  Result<void> make_directory(const EntryName& name, const TarEntry& entry);
  Result<void> make_hard_link(const EntryName& name, const TarEntry& entry);
  Result<void> make_special(const EntryName& name, const TarEntry& entry);
  // Makes something with `make(leaf)` (0, or -1 with errno), then calls `dress(leaf)`. Shared: under a hidden name.
  template <typename Make, typename Dress>
  Result<void> place(const EntryName& name, int parent, Make make, Dress dress, bool is_hard_link = false);
  template <typename Make>
  Result<void> make_or_replace(const EntryName& name, int parent, Make make);
  Result<void> remove(const EntryName& name, int parent);
  Result<UniqueFd> open_directory(const std::string& path, bool create);
  // Owner, mode, attributes and time, in this order: chown clears setuid bits and capabilities.
  Result<void> dress(int fd, const Attributes& attributes, const EntryName& name, bool has_mode) const;
  Result<void> give_owner(int done, const EntryName& name) const;
  bool shared() const { return rules_.target == UnpackRules::Target::Shared; }

  UniqueFd root_;
  UnpackRules rules_;
  bool new_files_are_roots_ = false;  // Private: uid and gid 0 need no chown
  mode_t umask_ = 0777;               // Private: modes that open() gives need no chmod
  std::string parent_path_;           // most entries share their parent with the one before
  UniqueFd parent_;
  std::map<std::string, Attributes> directories_;

  // The file whose contents come.
  std::optional<sys::StagedFile> staged_;
  UniqueFd file_;  // Private
  EntryName file_name_;
  Attributes file_attributes_;
  std::uint64_t file_size_ = 0, file_end_ = 0, file_bytes_ = 0;

  std::uint64_t entries_ = 0;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t disk_bytes_ = 0;
};

}  // namespace osb::archive
