// The EXECD_ENVS file, which every process of a sandbox may write. For any bytes, exec accepts the names and values
// that come out; and values that were quoted the way clients do it come back unchanged.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "execd/run/environment.h"

namespace {

using osb::execd::Environment;
using osb::execd::parse_env_file;

const Environment kDaemon = {{"HOME", "/root"}, {"A", "$A"}};

void expect(const std::string& file, std::string_view value) {
  const Environment env = parse_env_file(file, kDaemon);
  if (env.size() != 1 || env.begin()->first != "K" || env.begin()->second != value) std::abort();
}

std::string escaped(std::string_view text) {
  constexpr std::string_view kBytes = "\\\"$\n\r\t";
  constexpr std::string_view kNames = "\\\"$nrt";
  std::string out;
  for (const char c : text) {
    const std::size_t at = kBytes.find(c);
    if (at != std::string_view::npos) out += '\\';
    out += at != std::string_view::npos ? kNames[at] : c;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto& [name, value] : parse_env_file(text, kDaemon)) {
    if (name.empty() || name.find('\0') != std::string::npos || name.find('=') != std::string::npos) std::abort();
    if (value.find('\0') != std::string::npos) std::abort();
  }
  if (text.find('\0') != std::string::npos) return 0;
  expect("K=\"" + escaped(text) + "\"\n", text);
  if (text.find('\'') == std::string::npos) expect("K='" + text + "'\n", text);
  return 0;
}
