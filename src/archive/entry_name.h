#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::archive {

// Where an entry goes: relative to the directory that an archive is unpacked into, without "." and doubled slashes.
struct EntryName {
  std::string parent;  // empty: the directory itself
  std::string leaf;    // empty: the entry is that directory
  std::string path() const { return parent.empty() ? leaf : parent + "/" + leaf; }
};

struct NameRules {
  // "/etc/x" means "etc/x", as builders of images write it. Otherwise an absolute name is refused.
  bool absolute_is_relative = false;
  // Of the last component; all others have the kernel's 255 bytes.
  std::size_t longest_leaf = 255;
};

// Refuses "..", NUL bytes, and names that no file system takes. The error is the reason alone: the caller names the
// entry (see refuse_entry).
Result<EntryName> parse_entry_name(std::string_view text, const NameRules& rules);

// Code::InvalidRequest: `layer entry "../x": '..' is not allowed`.
Failure refuse_entry(std::string_view archive, std::string_view entry, std::string_view why);

}  // namespace osb::archive
