#include "cli/local/port_holder.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <netinet/in.h>
#include <set>
#include <sys/socket.h>

#include "base/parse_number.h"
#include "base/unique_fd.h"
#include "cli/local/http_get.h"
#include "cli/local/list_directory.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;

// 0, or the errno of the attempt to listen there.
int try_port(std::uint16_t port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return errno;
  const int on = 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return errno;
  return ::listen(fd.get(), 1) != 0 ? errno : 0;
}

// Inodes of sockets that listen on the port.
std::set<std::string> listeners(std::uint16_t port) {
  std::set<std::string> out;
  for (const char* file : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    sys::for_each_line(sys::read_text(file).value_or(""), [&](std::string_view line) {
      unsigned local = 0, state = 0;
      unsigned long inode = 0;
      // sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
      constexpr unsigned kListen = 0x0a;
      if (std::sscanf(std::string(line).c_str(),
                      " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu", &local, &state,
                      &inode) == 3 &&
          local == port && state == kListen) {
        out.insert("socket:[" + std::to_string(inode) + "]");
      }
    });
  }
  return out;
}

std::uint16_t next_free_port(std::uint16_t port) {
  for (unsigned next = port + 1U; next <= 65535; ++next) {
    if (try_port(static_cast<std::uint16_t>(next)) == 0) return static_cast<std::uint16_t>(next);
  }
  return 0;
}

bool answers_as_opensandbox(std::uint16_t port) {
  const auto answer = http_get("http://127.0.0.1:" + std::to_string(port) + "/openapi.json");
  return answer && answer->status == 200 && answer->body.find("/sandboxes/{sandboxId}") != std::string::npos;
}

}  // namespace

std::optional<PortHolder> find_port_holder(std::uint16_t port) {
  const std::set<std::string> wanted = listeners(port);
  if (wanted.empty()) return std::nullopt;
  for (const fs::path& process : list_directory("/proc")) {
    const pid_t pid = parse_number<pid_t>(process.filename().native()).value_or(0);
    if (pid <= 0) continue;
    for (const fs::path& fd : list_directory(process / "fd")) {
      std::error_code failed;
      const fs::path target = fs::read_symlink(fd, failed);
      if (failed || !wanted.contains(target.string())) continue;
      const std::string name = sys::read_text(process / "comm").value_or("");
      return PortHolder{pid, name.substr(0, name.find('\n'))};
    }
  }
  return PortHolder{};
}

Result<void> check_port_is_free(std::uint16_t port) {
  const int error = try_port(port);
  if (error == 0) return {};
  const std::string where = "port " + std::to_string(port) + " of this machine";
  if (error != EADDRINUSE) return sys::from_errno("listen on " + where, error);
  const auto holder = find_port_holder(port);
  std::string said = where + " is in use";
  if (holder && holder->pid != 0) said += " by " + holder->name + " (process " + std::to_string(holder->pid) + ")";
  if (answers_as_opensandbox(port)) {
    said += ", an OpenSandbox server. Use that one with --domain 127.0.0.1:" + std::to_string(port) +
            ", or start another one";
  } else {
    said += ". Take another port";
  }
  const std::uint16_t other = next_free_port(port);
  return fail(Code::Conflict, said + ": osb up --port " + (other != 0 ? std::to_string(other) : "PORT"));
}

}  // namespace osb::cli
