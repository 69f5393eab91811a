// Archives from strangers. The first byte says how the input is cut into pieces, which must not change what is found.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "archive/tar_reader.h"

namespace {

// Checks what every sink relies on, and writes down what it was told.
class CheckingSink : public osb::archive::TarSink {
 public:
  osb::Result<void> begin(const osb::archive::TarEntry& entry) override {
    if (open_ || entry.path.find('\0') != std::string::npos || entry.link.find('\0') != std::string::npos) std::abort();
    open_ = true;
    size_ = entry.size;
    at_ = 0;
    told += "B" + std::string(1, static_cast<char>(entry.type)) + entry.path + '\0' + entry.link + '\0' +
            std::to_string(entry.size);
    return {};
  }
  osb::Result<void> data(std::uint64_t offset, std::string_view bytes) override {
    if (!open_ || bytes.empty() || offset < at_ || offset > size_ || bytes.size() > size_ - offset) std::abort();
    if (offset != at_) told += "O" + std::to_string(offset);
    at_ = offset + bytes.size();
    told += bytes;
    return {};
  }
  osb::Result<void> end() override {
    if (!open_) std::abort();
    open_ = false;
    told += "E";
    return {};
  }
  std::string told;

 private:
  bool open_ = false;
  std::uint64_t size_ = 0;
  std::uint64_t at_ = 0;
};

std::string read(std::string_view bytes, std::size_t piece) {
  CheckingSink sink;
  osb::archive::TarReader reader(sink);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    if (auto ok = reader.feed(bytes.substr(0, piece)); !ok) return sink.told + "!" + ok.error().message;
  }
  if (auto ok = reader.finish(); !ok) return sink.told + "?" + ok.error().message;
  return sink.told;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view archive(reinterpret_cast<const char*>(data + 1), size - 1);
  if (read(archive, SIZE_MAX) != read(archive, std::size_t{1} + data[0])) std::abort();
  return 0;
}
