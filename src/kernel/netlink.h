#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <optional>
#include <sched.h>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "sys/syscall.h"

namespace osb::kernel {

// Runs fn() on a thread of its own inside a network namespace and returns its Result. The caller's namespace never
// changes, and a thread that cannot come back is no problem: it ends here. Needs CAP_SYS_ADMIN; costs about 50 us.
template <typename F>
std::invoke_result_t<F&> in_network_namespace(int netns_fd, F fn) {
  std::optional<std::invoke_result_t<F&>> result;
  std::thread([&] {
    if (::setns(netns_fd, CLONE_NEWNET) < 0)
      result = sys::from_errno("join network namespace", errno);
    else
      result = fn();
  }).join();
  return std::move(*result);
}

// Calls fn(attribute) for each attribute behind the family's own header.
template <typename F>
void for_each_attribute(const nlmsghdr* message, std::size_t header_size, F fn) {
  const auto* attribute = static_cast<const nlattr*>(mnl_nlmsg_get_payload_offset(message, header_size));
  const auto* end = static_cast<const char*>(mnl_nlmsg_get_payload_tail(message));
  for (; mnl_attr_ok(attribute, static_cast<int>(end - reinterpret_cast<const char*>(attribute)));
       attribute = mnl_attr_next(attribute))
    fn(attribute);
}
template <typename F>
void for_each_nested(const nlattr* nest, F fn) {
  const auto* attribute = static_cast<const nlattr*>(mnl_attr_get_payload(nest));
  const auto* end = reinterpret_cast<const char*>(attribute) + mnl_attr_get_payload_len(nest);
  for (; mnl_attr_ok(attribute, static_cast<int>(end - reinterpret_cast<const char*>(attribute)));
       attribute = mnl_attr_next(attribute))
    fn(attribute);
}

// Messages for one netlink socket, sent together. Each has a phrase for its error message.
class NetlinkBatch {
 public:
  // Begins a message. The header is valid until the next begin(); fill it with libmnl's mnl_attr_put_*(), up to
  // `room` bytes.
  nlmsghdr* begin(std::uint16_t type, std::uint16_t flags, std::string what, std::size_t room = 2048);

  // Asks for an acknowledgement of the message begun last.
  void acknowledge() { open_->nlmsg_flags |= NLM_F_ACK; }

  bool empty() const { return whats_.empty(); }

 private:
  friend class NetlinkSocket;
  void finish();

  std::vector<char> buffer_;
  std::size_t used_ = 0;
  nlmsghdr* open_ = nullptr;
  std::vector<std::string> whats_;
};

// A netlink socket belongs to the network namespace it was opened in, in any thread that uses it. One thread at a time.
class NetlinkSocket {
 public:
  // In the namespace of the calling thread; `protocol` is NETLINK_ROUTE, NETLINK_NETFILTER, ..
  static Result<NetlinkSocket> open(int protocol);
  static Result<NetlinkSocket> open_in(int netns_fd, int protocol);

  // Sends all messages and waits for what they ask for: an acknowledgement (NLM_F_ACK) or the parts of a dump, which go
  // to `each`. The kernel carries on after a message that failed; the first failure is returned, as "what: errno text
  // (the kernel's own explanation)".
  Result<void> run(NetlinkBatch& batch, const std::function<void(const nlmsghdr*)>& each = {});

  int fd() const { return fd_.get(); }

 private:
  explicit NetlinkSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  std::uint32_t sequence_ = 0;
};

}  // namespace osb::kernel
