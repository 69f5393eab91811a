#include "archive/tar_entry.h"

#include <cstring>
#include <numeric>
#include <string_view>

#include "base/concat.h"
#include "base/utf8.h"

namespace osb::archive {
namespace {

// POSIX 1003.1 pax, "ustar Interchange Format".
struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6], version[2],
      owner[32], group[32], major[8], minor[8], prefix[155], unused[12];
};
static_assert(sizeof(Header) == kTarBlock);

template <std::size_t N>
void put_text(char (&field)[N], std::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), N));
}

// False if the value does not fit into N-1 octal digits; the field is then 0.
template <std::size_t N>
bool put_octal(char (&field)[N], std::uint64_t value) {
  const bool fits = value < (std::uint64_t{1} << (3 * (N - 1)));
  if (!fits) value = 0;
  for (std::size_t i = N - 1; i-- > 0; value >>= 3) field[i] = static_cast<char>('0' + (value & 7));
  return fits;
}

void put_checksum(Header& header) {
  std::memset(header.checksum, ' ', sizeof header.checksum);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
  const unsigned sum = std::accumulate(bytes, bytes + sizeof header, 0u);
  char digits[7] = {};
  put_octal(digits, sum);
  std::memcpy(header.checksum, digits, 6);
  header.checksum[6] = '\0';
}

void append_block(std::string& out, Header& header) {
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  put_checksum(header);
  out.append(reinterpret_cast<const char*>(&header), sizeof header);
}

// "LENGTH KEY=VALUE\n", where LENGTH counts itself.
void append_record(std::string& out, std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (std::to_string(length).size() + rest != length) length = std::to_string(length).size() + rest;
  out += concat(length, ' ', key, '=', value, '\n');
}

// A name as a record. Readers take a record that is no UTF-8 for damaged unless the archive says that it is binary.
void append_name(std::string& out, std::string_view key, std::string_view name) {
  if (find_invalid_utf8(name) != std::string_view::npos) append_record(out, "hdrcharset", "BINARY");
  append_record(out, key, name);
}

void append_extended(std::string& out, const std::string& records) {
  Header header{};
  put_text(header.name, "././@PaxHeader");
  put_octal(header.mode, 0644);
  put_octal(header.uid, 0);
  put_octal(header.gid, 0);
  put_octal(header.size, records.size());
  put_octal(header.mtime, 0);
  header.type = 'x';
  append_block(out, header);
  out += records;
  out.append(tar_padding(records.size()), '\0');
}

std::string sparse_map(const TarEntry& entry) {
  const auto& segments = entry.segments;
  // An empty segment behind a hole at the end marks it; without it GNU tar makes the file too short.
  const bool ends_in_hole = segments.empty() || segments.back().offset + segments.back().length < entry.size;
  std::string map = concat(segments.size() + (ends_in_hole ? 1 : 0), '\n');
  for (const auto& [offset, length] : segments) map += concat(offset, '\n', length, '\n');
  if (ends_in_hole) map += concat(entry.size, "\n0\n");
  map.append(tar_padding(map.size()), '\0');
  return map;
}

std::string pax_time(const timespec& time) {
  const auto nine_digits = [](long value) { return zero_padded(static_cast<std::uint64_t>(value), 9); };
  // Before 1970 the fraction counts towards the past: -1 s + 0.75 s is written -0.25.
  if (time.tv_sec < 0 && time.tv_nsec != 0) {
    return concat('-', -(time.tv_sec + 1), '.', nine_digits(1'000'000'000 - time.tv_nsec));
  }
  return time.tv_nsec == 0 ? std::to_string(time.tv_sec) : concat(time.tv_sec, '.', nine_digits(time.tv_nsec));
}

}  // namespace

std::uint64_t stored_bytes(const TarEntry& entry) {
  if (entry.type != TarEntry::Type::File) return 0;
  if (!entry.sparse) return entry.size;
  std::uint64_t stored = 0;
  for (const auto& segment : entry.segments) stored += segment.length;
  return stored;
}

void append_tar_header(std::string& out, const TarEntry& entry) {
  Header header{};
  std::string records, map;
  std::uint64_t stored = stored_bytes(entry);
  if (entry.sparse) {
    map = sparse_map(entry);
    stored += map.size();
    append_record(records, "GNU.sparse.major", "1");
    append_record(records, "GNU.sparse.minor", "0");
    append_name(records, "GNU.sparse.name", entry.path);
    append_record(records, "GNU.sparse.realsize", std::to_string(entry.size));
    put_text(header.name, concat("GNUSparseFile.0/", std::string_view(entry.path).substr(entry.path.rfind('/') + 1)));
  } else {
    put_text(header.name, entry.path);
    if (entry.path.size() > sizeof header.name) append_name(records, "path", entry.path);
  }
  put_text(header.link, entry.link);
  if (entry.link.size() > sizeof header.link) append_name(records, "linkpath", entry.link);
  put_octal(header.mode, entry.mode & 07777);
  if (!put_octal(header.uid, entry.uid)) append_record(records, "uid", std::to_string(entry.uid));
  if (!put_octal(header.gid, entry.gid)) append_record(records, "gid", std::to_string(entry.gid));
  if (!put_octal(header.size, stored)) append_record(records, "size", std::to_string(stored));
  const bool whole = entry.mtime.tv_nsec == 0 && entry.mtime.tv_sec >= 0;
  const bool fits =
      put_octal(header.mtime, entry.mtime.tv_sec < 0 ? 0 : static_cast<std::uint64_t>(entry.mtime.tv_sec));
  if (!whole || !fits) append_record(records, "mtime", pax_time(entry.mtime));
  header.type = static_cast<char>(entry.type);
  put_text(header.owner, std::string_view(entry.owner).substr(0, sizeof header.owner - 1));
  if (entry.owner.size() >= sizeof header.owner) append_record(records, "uname", entry.owner);
  put_text(header.group, std::string_view(entry.group).substr(0, sizeof header.group - 1));
  if (entry.group.size() >= sizeof header.group) append_record(records, "gname", entry.group);
  put_octal(header.major, entry.major);
  put_octal(header.minor, entry.minor);
  for (const auto& [name, value] : entry.attributes) append_record(records, concat("SCHILY.xattr.", name), value);
  if (!records.empty()) append_extended(out, records);
  append_block(out, header);
  out += map;
}

}  // namespace osb::archive
