#pragma once

// Layers made byte by byte, so that tests can write what no tar program would.

#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <zlib.h>
#include <zstd.h>

#include <fmt/format.h>

#include "image/layer_stream.h"

namespace osb::image::testing {

struct TarEntry {
  std::string name;
  char type = '0';  // as in the header: 0 file, 1 hard link, 2 symbolic link, 3 and 4 devices, 5 directory, 6 pipe
  std::string data = {};
  unsigned mode = 0644;
  unsigned uid = 0, gid = 0;
  std::string link = {};
  std::map<std::string, std::string> pax = {};
  long mtime = 1'000'000'000;
  unsigned major = 0, minor = 0;
};

class Tar {
 public:
  Tar& add(const TarEntry& entry) {
    if (!entry.pax.empty()) {
      std::string records;
      for (const auto& [key, value] : entry.pax) {
        const std::size_t rest = key.size() + value.size() + 3;  // blank, '=', newline
        std::size_t length = rest + 1;
        while (std::to_string(length).size() + rest != length) length = std::to_string(length).size() + rest;
        records += std::to_string(length) + " " + key + "=" + value + "\n";
      }
      block({.name = "pax", .type = 'x'}, records);
    }
    block(entry, entry.data);
    return *this;
  }
  Tar& file(const std::string& name, const std::string& data) { return add({.name = name, .data = data}); }
  Tar& directory(const std::string& name, unsigned mode = 0755) {
    return add({.name = name, .type = '5', .mode = mode});
  }
  Tar& symlink(const std::string& name, const std::string& to) { return add({.name = name, .type = '2', .link = to}); }
  Tar& link(const std::string& name, const std::string& to) { return add({.name = name, .type = '1', .link = to}); }

  std::string bytes() const { return bytes_ + std::string(1024, '\0'); }

 private:
  void block(const TarEntry& entry, const std::string& data) {
    std::string h(512, '\0');
    const auto put = [&](std::size_t at, std::string_view text) {
      std::memcpy(h.data() + at, text.data(), text.size());
    };
    put(0, entry.name.substr(0, 100));
    put(100, fmt::format("{:07o}", entry.mode));
    put(108, fmt::format("{:07o}", entry.uid));
    put(116, fmt::format("{:07o}", entry.gid));
    put(124, fmt::format("{:011o}", data.size()));
    put(136, fmt::format("{:011o}", entry.mtime));
    put(148, "        ");
    h[156] = entry.type;
    put(157, entry.link.substr(0, 100));
    put(257, std::string_view("ustar\00000", 8));
    put(329, fmt::format("{:07o}", entry.major));
    put(337, fmt::format("{:07o}", entry.minor));
    unsigned sum = 0;
    for (const char c : h) sum += static_cast<unsigned char>(c);
    put(148, fmt::format("{:06o}", sum));
    h[154] = '\0';
    bytes_ += h + data;
    bytes_.append((512 - data.size() % 512) % 512, '\0');
  }
  std::string bytes_;
};

inline std::string gzip(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

// Hands the bytes out in pieces of `piece`, as a network would.
inline ByteSource from_memory(std::string bytes, std::size_t piece = 1 << 20) {
  return [bytes = std::move(bytes), piece, at = std::size_t{0}](std::span<char> out) mutable -> Result<std::size_t> {
    const std::size_t size = std::min({piece, out.size(), bytes.size() - at});
    std::memcpy(out.data(), bytes.data() + at, size);
    at += size;
    return size;
  };
}

}  // namespace osb::image::testing
