#pragma once

#include <string>
#include <string_view>
#include <sys/stat.h>

#include "base/error.h"

// Parts of copy_tree: the attributes of an entry. Errors name no path, the caller adds it.
namespace osb::kernel {

// How to treat an attribute of an overlay's upper directory in a lower one; see CopyTreeOptions.
enum class OverlayAttribute { Keep, Drop, Refuse };
OverlayAttribute overlay_attribute(std::string_view name);

// An entry by descriptor, or by name in a directory where it cannot be opened (symbolic links, FIFOs, whiteouts).
struct EntryRef {
  int fd = -1;            // of the entry, or of its directory if there is a name
  const char* name = "";  // empty: the entry is `fd` itself
};

// `buffer` is scratch memory that calls share. Clears nothing that the destination has already: it is new.
Result<void> copy_attributes(EntryRef from, EntryRef to, bool overlay_upper, std::string& buffer);

// Owner, then attributes, then mode, then times: each undoes part of the ones after it.
Result<void> copy_metadata(EntryRef from, EntryRef to, const struct stat& st, bool overlay_upper, std::string& buffer);

// Whether a directory of an overlay's upper is merged with one below it: entries missing in it come from the lower one.
Result<bool> is_merged_directory(int directory);

}  // namespace osb::kernel
