#include "execd/isolated/session_link.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "async/timer.h"
#include "execd/isolated/packet.h"
#include "execd/isolated/session_init.h"
#include "execd/isolated/session_maker.h"
#include "execd/run/oom_score.h"
#include "sys/spawn.h"
#include "sys/syscall.h"

namespace osb::execd {
namespace {

constexpr std::chrono::seconds kMaking(20);

Result<UniqueFd> connect_to(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return sys::from_errno("socket", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fail(Code::Unavailable, "the path of sandboxd's socket is too long");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) < 0) {
    return fail(Code::Unavailable, "sandboxd does not answer: " + sys::from_errno("connect", errno).error().message);
  }
  return socket;
}

// execd's own rights make the namespaces.
Result<UniqueFd> start_maker() {
  auto sockets = make_packet_sockets();
  if (!sockets) return Failure(sockets.error());
  sys::SpawnPlan plan;
  plan.program = "/proc/self/exe";
  plan.argv = {"execd", std::string(kSessionMakerArgument), "direct"};
  plan.group = sys::SpawnPlan::Group::NewSession;
  plan.oom_score_adj = command_oom_score();
  plan.fds = {{kMakerControlFd, sockets->second.get()}};
  // Its end is the reaper's to see, like that of the session's first process, which becomes our child.
  if (auto child = sys::spawn(plan); !child) return Failure(child.error());
  return std::move(sockets->first);
}

Result<SessionWalls> read_answer(Result<std::optional<Packet>> packet) {
  if (!packet) return Failure(packet.error());
  if (!*packet || (*packet)->data.empty()) {
    return fail(Code::Unavailable, "the process that makes the session ended without an answer");
  }
  const std::string& data = (*packet)->data;
  if (data[0] == session_message::kTooLarge) return fail(Code::InvalidRequest, data.substr(1));
  if (data[0] == session_message::kUnsupported) return fail(Code::Unsupported, data.substr(1));
  if (data[0] != session_message::kReady) return fail(Code::Unavailable, data.substr(1));
  auto fields = unpack_strings(std::string_view(data).substr(1));
  if (!fields || fields->size() != 6) return fail(Code::Unavailable, "the session answered with something else");
  const std::vector<std::string>& f = *fields;
  return SessionWalls{{f[0], f[1]}, {f[2], f[3]}, {f[4], f[5]}};
}

}  // namespace

net::awaitable<Result<SessionLink>> SessionLink::make(net::any_io_executor executor, IsolationOptions options,
                                                      SessionSpec spec) {
  auto socket = options.socket.empty() ? start_maker() : connect_to(options.socket);
  if (!socket) co_return Failure(socket.error());
  auto description = make_memory_file(encode_session_spec(spec));
  if (!description) co_return Failure(description.error());
  const int fd = description->get();
  if (auto sent = send_packet(socket->get(), "S", {&fd, 1}); !sent) {
    co_return fail(Code::Unavailable, sent.error().message);
  }
  auto opened = Descriptor::open(executor, std::move(*socket));
  if (!opened) co_return Failure(opened.error());
  const auto answered = co_await with_timeout(opened->wait_readable(), kMaking);
  if (!answered) co_return fail(Code::Unavailable, "the session was not made in time");
  auto walls = read_answer(receive_packet(opened->fd()));
  if (!walls) co_return Failure(walls.error());
  co_return SessionLink(std::move(*opened), std::move(*walls));
}

Result<void> SessionLink::send(char kind, int fd) {
  if (!socket_.is_open()) return fail(Code::Unavailable, "the session has ended");
  return send_packet(socket_.fd(), {&kind, 1}, {&fd, 1});
}

net::awaitable<void> SessionLink::ended() {
  // Its first process says nothing more: what comes is the end.
  if (socket_.is_open()) co_await socket_.wait_readable();
}

void SessionLink::finish() {
  if (socket_.is_open()) ::shutdown(socket_.fd(), SHUT_WR);
}

}  // namespace osb::execd
