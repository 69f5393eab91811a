// The splitter against a byte-by-byte reference: reads may be cut anywhere (the first two bytes choose how), and the
// lines, put together again, hold every byte that is no terminator.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/line_splitter.h"

namespace {

std::vector<std::string> reference(std::string_view bytes) {
  std::vector<std::string> lines;
  std::string line;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\n' && i > 0 && bytes[i - 1] == '\r') continue;
    if (bytes[i] == '\n' || bytes[i] == '\r') {
      lines.push_back(std::exchange(line, {}));
    } else {
      line += bytes[i];
    }
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

std::vector<std::string> split(std::string_view bytes, std::size_t step, std::size_t max_line) {
  std::vector<std::string> lines;
  osb::LineSplitter splitter(max_line);
  const auto sink = [&](std::string_view line) {
    if (line.size() > max_line) std::abort();
    lines.emplace_back(line);
  };
  for (std::size_t at = 0; at < bytes.size(); at += step) splitter.feed(bytes.substr(at, step), sink);
  splitter.finish(sink);
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t step = 1 + data[0] % 64;
  const std::size_t max_line = 8 + data[1];
  const std::string_view bytes(reinterpret_cast<const char*>(data + 2), size - 2);
  const std::vector<std::string> want = reference(bytes);
  if (split(bytes, step, size + 8) != want) std::abort();

  // With a small limit the pieces of a line follow each other; put together they are the same lines.
  const std::vector<std::string> pieces = split(bytes, step, max_line);
  std::size_t next = 0;
  for (const std::string& line : want) {
    std::string joined;
    do {
      if (next == pieces.size()) std::abort();
      joined += pieces[next++];
    } while (joined.size() < line.size());
    if (joined != line) std::abort();
  }
  if (next != pieces.size()) std::abort();
  return 0;
}
