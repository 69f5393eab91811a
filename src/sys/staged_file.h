#pragma once

#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sys {

// A file that is invisible until it is complete. It has no name at all where the file system can do that (O_TMPFILE),
// so that not even a killed daemon leaves it behind; otherwise a hidden one, which goes with the object.
class StagedFile {
 public:
  // In (or on the file system of) `directory`; with `mode` less the umask.
  static Result<StagedFile> create(int directory, mode_t mode = 0777);
  StagedFile(StagedFile&&) noexcept = default;
  StagedFile& operator=(StagedFile&& other) noexcept;
  ~StagedFile();

  int fd() const { return file_.get(); }

  // Appends all of it, or fails (disk full).
  Result<void> write(std::string_view bytes);

  // Gives it its name, in one step that replaces what has the name now; a directory is not replaced. The error keeps
  // its errno: EBUSY for a bind-mounted file, EPERM, EACCES, ...; then the file is still staged.
  Result<void> place(int directory, const std::string& name);

 private:
  StagedFile() = default;
  void discard();

  UniqueFd file_;
  UniqueFd directory_;  // of hidden_name_
  std::string hidden_name_;
};

// A name for something temporary next to other files: ".osb-" and 16 random hex digits.
std::string hidden_name();

// mkdir -p with the given mode (less the umask) for what is missing. A relative `path` starts at the working
// directory.
Result<void> make_directories(const std::string& path, mode_t mode);

}  // namespace osb::sys
