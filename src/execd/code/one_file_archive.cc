#include "execd/code/one_file_archive.h"

#include <cstdint>

#include "base/concat.h"

namespace osb::execd {
namespace {

std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320U : 0);
  }
  return ~crc;
}

void put(std::string& out, std::uint32_t value, int bytes) {
  for (; bytes > 0; --bytes, value >>= 8) out += static_cast<char>(value & 0xFF);
}

}  // namespace

std::string one_file_archive(std::string_view name, std::string_view content) {
  const auto size = static_cast<std::uint32_t>(content.size());
  std::string about;  // the same in front of the file and in the directory
  put(about, 10, 2);  // version 1.0 is enough to read it
  put(about, 0, 2 + 2);
  put(about, 0x00210000, 4);  // 1980-01-01, the first date that there is
  put(about, crc32(content), 4);
  put(about, size, 4);
  put(about, size, 4);
  put(about, static_cast<std::uint32_t>(name.size()), 2);
  put(about, 0, 2);

  std::string out = concat("PK\3\4", about, name, content);
  const auto directory = static_cast<std::uint32_t>(out.size());
  out += "PK\1\2";
  put(out, 10, 2);
  out += about;
  out.append(2 + 2 + 2 + 4 + 4, '\0');  // no comment, one disk, no attributes, the file at offset 0
  out += name;
  const auto directory_size = static_cast<std::uint32_t>(out.size()) - directory;
  out += "PK\5\6";
  put(out, 0, 4);
  put(out, 1, 2);
  put(out, 1, 2);
  put(out, directory_size, 4);
  put(out, directory, 4);
  put(out, 0, 2);
  return out;
}

}  // namespace osb::execd
