#include "sys/send_descriptor.h"

#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

#include "sys/syscall.h"

namespace osb::sys {

Result<void> send_descriptors(int socket, std::span<const int> fds) {
  if (fds.size() > kMaxDescriptors) return from_errno("send descriptors", EINVAL);
  char byte = 's';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  if (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) return from_errno("send descriptors", errno);
  return {};
}

}  // namespace osb::sys
