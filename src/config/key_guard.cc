#include "config/key_guard.h"

#include <cerrno>
#include <poll.h>
#include <string>
#include <string_view>
#include <unistd.h>

#include "base/deadline.h"

namespace osb::config {
namespace {

constexpr std::string_view kPrompt =
    "\x1b[31mNo API key is set: everyone who can reach this server can run code on it.\n"
    "Type YES within 30 seconds to start anyway: \x1b[0m";

// A line, or nothing when it does not come in time.
std::string read_line(int fd, std::chrono::milliseconds patience) {
  const Deadline deadline(patience);
  std::string line;
  for (;;) {
    if (deadline.passed()) return "";
    pollfd wait{fd, POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(deadline.left().count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return "";
    char c = 0;
    const ssize_t got = ::read(fd, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || line.size() > 64) return "";
    if (c == '\n') return line;
    line += c;
  }
}

}  // namespace

Result<KeyGuard> check_api_key(const ServerConfig& config, const Environment& environment, int stdin_fd, int prompt_fd,
                               std::chrono::milliseconds patience) {
  if (config.server.api_key.find_first_not_of(" \t\r\n") != std::string::npos) return KeyGuard::Protected;
  const std::string* said = environment.find("OPENSANDBOX_INSECURE_SERVER");
  if (said != nullptr && *said == "YES") return KeyGuard::Acknowledged;
  if (::isatty(stdin_fd) == 1) {
    if (::write(prompt_fd, kPrompt.data(), kPrompt.size()) < 0) {
      return fail(Code::Internal, "no API key is set, and the question whether to start without one cannot be shown");
    }
    if (read_line(stdin_fd, patience) == "YES") return KeyGuard::Acknowledged;
  }
  return fail(Code::Forbidden,
              "no API key is set: set [server] api_key or OPENSANDBOX_SERVER_API_KEY, or, if only you can reach "
              "the server, OPENSANDBOX_INSECURE_SERVER=YES");
}

}  // namespace osb::config
