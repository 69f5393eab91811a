#include "cli/read_input.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/json.h"
#include "base/unique_fd.h"
#include "yaml/reader.h"

namespace osb::cli {
namespace {

constexpr std::size_t kLimit = 16 << 20;

}  // namespace

Expected<std::string> read_input(const std::string& path, const std::string& what) {
  UniqueFd opened;
  int fd = STDIN_FILENO;
  const auto complain = [&](int error) {
    return invalid("Cannot read the " + what + " file '" + path + "': " + std::strerror(error) + ".");
  };
  if (path != "-") {
    opened = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (opened.get() < 0) return complain(errno);
    fd = opened.get();
  }
  std::string out;
  for (;;) {
    char buffer[16384];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return complain(errno);
    if (got == 0) return out;
    out.append(buffer, static_cast<std::size_t>(got));
    if (out.size() > kLimit) return complain(EFBIG);
  }
}

Expected<boost::json::value> read_json_file(const std::string& path, const std::string& what) {
  auto text = read_input(path, what);
  if (!text) return failed(text.error());
  auto parsed = api::parse_json(*text);
  if (!parsed) return invalid("Invalid JSON in the " + what + " file '" + path + "': " + parsed.error().message + ".");
  return *parsed;
}

Expected<boost::json::value> read_yaml_file(const std::string& path, const std::string& what) {
  auto text = read_input(path, what);
  if (!text) return failed(text.error());
  auto parsed = yaml::parse(*text);
  if (!parsed) {
    // Never the text itself: it may be a secret.
    return invalid("The " + what + " file '" + path + "' is neither JSON nor YAML: " + parsed.error().message + ".");
  }
  return *parsed;
}

}  // namespace osb::cli
