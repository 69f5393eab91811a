#include "execd/isolated/packet.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/syscall.h"
#include "sys/write_all.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMaxData = 4096;

}  // namespace

Result<void> send_packet(int socket, std::string_view data, std::span<const int> fds) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPacketFds)] = {};
  iovec bytes{const_cast<char*>(data.data()), data.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return sys::from_errno("send to the session", errno);
  }
  return {};
}

Result<std::optional<Packet>> receive_packet(int socket) {
  Packet out;
  out.data.resize(kMaxData);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPacketFds)] = {};
  iovec bytes{out.data.data(), out.data.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  while ((got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EAGAIN) return fail(Code::Unavailable, "no message yet");
    if (errno == ECONNRESET) return std::nullopt;
    if (errno != EINTR) return sys::from_errno("receive from the session", errno);
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      out.fds.emplace_back(fd);
    }
  }
  if (got == 0 && out.fds.empty()) return std::nullopt;
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return fail(Code::InvalidRequest, "a message is too long");
  out.data.resize(static_cast<std::size_t>(got));
  return out;
}

Result<std::pair<UniqueFd, UniqueFd>> make_packet_sockets() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) return sys::from_errno("socketpair", errno);
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

std::string pack_strings(const std::vector<std::string>& strings) {
  std::string out;
  for (const std::string& text : strings) {
    const std::uint64_t size = text.size();
    out.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
  }
  return out;
}

Result<std::vector<std::string>> unpack_strings(std::string_view bytes) {
  std::vector<std::string> out;
  while (!bytes.empty()) {
    std::uint64_t size;
    if (bytes.size() < sizeof size) return fail(Code::InvalidRequest, "packed strings end early");
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes.remove_prefix(sizeof size);
    if (bytes.size() < size) return fail(Code::InvalidRequest, "packed strings end early");
    out.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return out;
}

Result<UniqueFd> make_memory_file(std::string_view content) {
  UniqueFd file(::memfd_create("isolated", MFD_CLOEXEC));
  if (!file) return sys::from_errno("memfd_create", errno);
  if (auto written = sys::write_all_at(file.get(), 0, content, "memory file"); !written)
    return Failure(written.error());
  return file;
}

Result<std::string> read_memory_file(int file, std::size_t most) {
  std::string out;
  char piece[65536];
  for (;;) {
    const ssize_t n = ::pread(file, piece, sizeof piece, static_cast<off_t>(out.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sys::from_errno("read a memory file", errno);
    if (n == 0) return out;
    if (out.size() + static_cast<std::size_t>(n) > most) return fail(Code::InvalidRequest, "a memory file is too long");
    out.append(piece, static_cast<std::size_t>(n));
  }
}

}  // namespace osb::execd
