#include "sys/send_descriptor.h"

#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

#include "sys/syscall.h"

namespace osb::sys {

Result<void> send_descriptor(int socket, int fd) {
  char byte = 's';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) return from_errno("send a descriptor", errno);
  return {};
}

}  // namespace osb::sys
