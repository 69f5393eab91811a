#pragma once

#include <string>
#include <string_view>
#include <sys/stat.h>

#include "execd/owner/owner_names.h"

namespace osb::execd {

// Writes the contract's FileInfo as JSON: the symlink itself is described, not what it points to. Made for listings of
// hundreds of thousands, whose neighbours are alike: it remembers the last owner, group and second in their written
// form. For one thread at a time.
class FileInfoWriter {
 public:
  explicit FileInfoWriter(OwnerNames names) : names_(std::move(names)) {}

  // Appends one. The path that the client is told is `directory`, already escaped (write_json_escaped), and `name`
  // behind it.
  void append(std::string& out, std::string_view directory, std::string_view name, const struct stat& st);
  void append(std::string& out, std::string_view path, const struct stat& st) { append(out, {}, path, st); }

 private:
  struct Owner {
    bool known = false;
    std::uint32_t id = 0;
    std::string json;  // its name, or the id, in quotes
  };
  struct Second {
    bool known = false;
    bool has_fraction = false;  // false: out of the range of dates, written as the nearest one
    time_t value = 0;
    char text[19];  // 2025-01-02T03:04:05
  };

  const std::string& json_of(Owner& last, std::uint32_t id, const std::string* (OwnerNames::*name_of)(std::uint32_t));
  char* write_time(char* out, const timespec& time);

  OwnerNames names_;
  Owner user_;
  Owner group_;
  Second second_;
};

}  // namespace osb::execd
