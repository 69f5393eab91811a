#include "execd/file/file_info.h"

#include <charconv>

#include "base/json_escape.h"
#include "base/time.h"

namespace osb::execd {
namespace {

std::string_view type_name(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "file";
    case S_IFDIR:
      return "directory";
    case S_IFLNK:
      return "symlink";
    default:
      return "other";
  }
}

void append_number(std::string& out, std::uint64_t value) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

void append_owner(std::string& out, const std::string* name, std::uint32_t id) {
  if (name != nullptr) return append_json_string(out, *name);
  out += '"';
  append_number(out, id);
  out += '"';
}

}  // namespace

void append_file_info(std::string& out, std::string_view path, const struct stat& st, OwnerNames& names) {
  out += R"({"path":)";
  append_json_string(out, path);
  out += R"(,"type":")";
  out += type_name(st.st_mode);
  out += R"(","size":)";
  append_number(out, static_cast<std::uint64_t>(st.st_size));
  out += R"(,"modified_at":")";
  const std::string modified = format_timestamp_nanos(st.st_mtim);
  out += modified;
  out += R"(","created_at":")";
  // Most files have not been touched since they were written.
  const bool same = st.st_ctim.tv_sec == st.st_mtim.tv_sec && st.st_ctim.tv_nsec == st.st_mtim.tv_nsec;
  out += same ? modified : format_timestamp_nanos(st.st_ctim);
  out += R"(","owner":)";
  append_owner(out, names.user_name(st.st_uid), st.st_uid);
  out += R"(,"group":)";
  append_owner(out, names.group_name(st.st_gid), st.st_gid);
  out += R"(,"mode":)";
  // The octal digits, read as a decimal number: 0755 is 755.
  const unsigned bits = st.st_mode & 0777;
  append_number(out, (bits >> 6) * 100 + (bits >> 3 & 7) * 10 + (bits & 7));
  out += '}';
}

}  // namespace osb::execd
