#include "execd/file/listing/file_info.h"

#include <charconv>
#include <cstring>

#include "base/json_escape.h"
#include "base/time.h"

namespace osb::execd {
namespace {

// All but the path, the names and their quotes, with numbers and times as long as they get.
constexpr std::size_t kFixedRoom = 256;

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

char* write(char* out, std::string_view text) { return out + text.copy(out, text.size()); }

char* write(char* out, std::uint64_t value) { return std::to_chars(out, out + 20, value).ptr; }

}  // namespace

const std::string& FileInfoWriter::json_of(Owner& last, std::uint32_t id,
                                           const std::string* (OwnerNames::*name_of)(std::uint32_t)) {
  if (!last.known || last.id != id) {
    const std::string* name = (names_.*name_of)(id);
    last = {.known = true, .id = id, .json = {}};
    append_json_string(last.json, name != nullptr ? *name : std::to_string(id));
  }
  return last.json;
}

char* FileInfoWriter::write_time(char* out, const timespec& time) {
  if (!second_.known || second_.value != time.tv_sec) {
    const std::string text = format_timestamp_nanos(timespec{time.tv_sec, 1});
    std::memcpy(second_.text, text.data(), sizeof second_.text);
    second_.has_fraction = text.find('.') != std::string::npos;
    second_.value = time.tv_sec;
    second_.known = true;
  }
  out = write(out, {second_.text, sizeof second_.text});
  if (second_.has_fraction && time.tv_nsec > 0 && time.tv_nsec < 1'000'000'000) {
    *out = '.';
    auto rest = static_cast<std::uint32_t>(time.tv_nsec);
    for (int i = 9; i > 0; --i, rest /= 10) out[i] = static_cast<char>('0' + rest % 10);
    out += 10;
    while (out[-1] == '0') --out;
  }
  *out = 'Z';
  return out + 1;
}

void FileInfoWriter::append(std::string& out, std::string_view directory, std::string_view name,
                            const struct stat& st) {
  const std::string& owner = json_of(user_, st.st_uid, &OwnerNames::user_name);
  const std::string& owning_group = json_of(group_, st.st_gid, &OwnerNames::group_name);
  const std::size_t before = out.size();
  const std::size_t room = directory.size() + max_json_escaped_size(name.size()) + owner.size() + owning_group.size();
  out.resize_and_overwrite(before + room + kFixedRoom, [&](char* data, std::size_t) {
    char* at = write(data + before, R"({"path":")");
    at = write(at, directory);
    at = write_json_escaped(at, name);
    at = write(at, R"(","type":")");
    at = write(at, type_name(st.st_mode));
    at = write(at, R"(","size":)");
    at = write(at, static_cast<std::uint64_t>(st.st_size));
    at = write(at, R"(,"modified_at":")");
    const char* const modified = at;
    at = write_time(at, st.st_mtim);
    const std::string_view modified_text(modified, at);
    at = write(at, R"(","created_at":")");
    // Most files have not been touched since they were written.
    const bool same = st.st_ctim.tv_sec == st.st_mtim.tv_sec && st.st_ctim.tv_nsec == st.st_mtim.tv_nsec;
    at = same ? write(at, modified_text) : write_time(at, st.st_ctim);
    at = write(at, R"(","owner":)");
    at = write(at, owner);
    at = write(at, R"(,"group":)");
    at = write(at, owning_group);
    at = write(at, R"(,"mode":)");
    // The octal digits, read as a decimal number: 0755 is 755.
    const unsigned bits = st.st_mode & 0777;
    at = write(at, std::uint64_t{(bits >> 6) * 100 + (bits >> 3 & 7) * 10 + (bits & 7)});
    *at++ = '}';
    return static_cast<std::size_t>(at - data);
  });
}

}  // namespace osb::execd
