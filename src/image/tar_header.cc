#include "image/tar_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <sys/sysmacros.h>

#include <fmt/format.h>

#include "base/utf8.h"

namespace osb::image {

namespace {

constexpr std::size_t kNameField = 100;
constexpr std::uint64_t kMaxOctal7 = 07777777;
constexpr std::uint64_t kMaxOctal11 = 077777777777;

// "30 mtime=1350244992.023960108\n": the length counts itself.
void add_record(std::string& out, std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (std::to_string(length).size() + rest != length) length = std::to_string(length).size() + rest;
  out += std::to_string(length);
  out += ' ';
  out += key;
  out += '=';
  out += value;
  out += '\n';
}

void put(std::span<char> block, std::size_t at, std::string_view text) {
  std::memcpy(block.data() + at, text.data(), text.size());
}

void put_octal(std::span<char> block, std::size_t at, int digits, std::uint64_t value) {
  for (int i = digits - 1; i >= 0; --i, value >>= 3) block[at + static_cast<std::size_t>(i)] = "01234567"[value & 7];
}

void append_block(std::string& out, const TarHeader& h, std::string_view name, char type, std::uint64_t size) {
  std::array<char, kTarBlock> block{};
  put(block, 0, name.substr(0, kNameField));
  put_octal(block, 100, 7, h.mode & 07777);
  put_octal(block, 108, 7, h.uid <= kMaxOctal7 ? h.uid : 0);
  put_octal(block, 116, 7, h.gid <= kMaxOctal7 ? h.gid : 0);
  put_octal(block, 124, 11, size <= kMaxOctal11 ? size : 0);
  put_octal(block, 136, 11, h.mtime.tv_sec >= 0 ? static_cast<std::uint64_t>(h.mtime.tv_sec) & kMaxOctal11 : 0);
  block[156] = type;
  put(block, 157, std::string_view(h.link).substr(0, kNameField));
  put(block, 257, std::string_view("ustar\00000", 8));
  put_octal(block, 329, 7, major(h.device));
  put_octal(block, 337, 7, minor(h.device));
  put(block, 148, "        ");
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put_octal(block, 148, 6, sum);
  block[154] = '\0';
  out.append(block.data(), block.size());
}

// Seconds with a fraction, counted down from zero for what was before 1970.
std::string pax_time(const timespec& time) {
  if (time.tv_sec >= 0) return fmt::format("{}.{:09}", time.tv_sec, time.tv_nsec);
  if (time.tv_nsec == 0) return fmt::format("{}", time.tv_sec);
  return fmt::format("-{}.{:09}", -(time.tv_sec + 1), 1'000'000'000 - time.tv_nsec);
}

bool is_utf8(std::string_view text) { return find_invalid_utf8(text) == std::string_view::npos; }

}  // namespace

std::string TarHeader::encode() const {
  std::string pax;
  const bool long_path = path.size() > kNameField, long_link = link.size() > kNameField;
  // Without it readers take records that are no UTF-8 for damaged.
  if (!is_utf8(path) || !is_utf8(link)) add_record(pax, "hdrcharset", "BINARY");
  if (long_path) add_record(pax, "path", path);
  if (long_link) add_record(pax, "linkpath", link);
  if (uid > kMaxOctal7) add_record(pax, "uid", std::to_string(uid));
  if (gid > kMaxOctal7) add_record(pax, "gid", std::to_string(gid));
  if (size > kMaxOctal11) add_record(pax, "size", std::to_string(size));
  if (mtime.tv_nsec != 0 || mtime.tv_sec < 0 || static_cast<std::uint64_t>(mtime.tv_sec) > kMaxOctal11) {
    add_record(pax, "mtime", pax_time(mtime));
  }
  for (const auto& [key, value] : records) add_record(pax, key, value);
  std::string out;
  if (!pax.empty()) {
    append_block(out, TarHeader{.path = {}, .mode = 0644, .link = {}, .records = {}}, "PaxHeaders/entry", 'x',
                 pax.size());
    out += pax;
    out.append(tar_padding(pax.size()), '\0');
  }
  append_block(out, *this, path, type, size);
  return out;
}

}  // namespace osb::image
