#include "kernel/netlink.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <sys/socket.h>

namespace osb::kernel {
namespace {

constexpr std::size_t kReceiveBytes = 64 << 10;  // more than the kernel puts into one part of a dump

// The text that the kernel adds to an error, if any.
std::string extended_ack(const nlmsghdr* message) {
  if (!(message->nlmsg_flags & NLM_F_ACK_TLVS)) return {};
  const auto* error = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(message));
  std::size_t offset = sizeof(nlmsgerr);
  if (!(message->nlmsg_flags & NLM_F_CAPPED)) offset += error->msg.nlmsg_len - sizeof(nlmsghdr);
  const auto* at = static_cast<const char*>(mnl_nlmsg_get_payload(message)) + MNL_ALIGN(offset);
  const char* end = static_cast<const char*>(mnl_nlmsg_get_payload_tail(message));
  for (const auto* attr = reinterpret_cast<const nlattr*>(at);
       mnl_attr_ok(attr, static_cast<int>(end - reinterpret_cast<const char*>(attr))); attr = mnl_attr_next(attr)) {
    if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG) return mnl_attr_get_str(attr);
  }
  return {};
}

Failure kernel_error(std::string what, int e, const std::string& explanation) {
  Failure failure = sys::from_errno(what, e);
  if (!explanation.empty()) failure.error().message += " (" + explanation + ")";
  return failure;
}

}  // namespace

nlmsghdr* NetlinkBatch::begin(std::uint16_t type, std::uint16_t flags, std::string what, std::size_t room) {
  finish();
  if (buffer_.size() < used_ + room) buffer_.resize(std::max(2 * buffer_.size(), used_ + room));
  whats_.push_back(std::move(what));
  open_ = mnl_nlmsg_put_header(buffer_.data() + used_);
  open_->nlmsg_type = type;
  open_->nlmsg_flags = NLM_F_REQUEST | flags;
  open_->nlmsg_seq = static_cast<std::uint32_t>(whats_.size());  // made unique when sent
  return open_;
}

void NetlinkBatch::finish() {
  if (open_ == nullptr) return;
  used_ += MNL_ALIGN(open_->nlmsg_len);
  open_ = nullptr;
}

Result<NetlinkSocket> NetlinkSocket::open(int protocol) {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
  if (!fd) return sys::from_errno("netlink socket", errno);
  const int on = 1;
  // Explanations with errors, without the request's copy. Both are as old as the kernels we run on.
  ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof on);
  ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on);
  sockaddr_nl self{};
  self.nl_family = AF_NETLINK;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&self), sizeof self) < 0)
    return sys::from_errno("bind netlink socket", errno);
  return NetlinkSocket(std::move(fd));
}

Result<NetlinkSocket> NetlinkSocket::open_in(int netns_fd, int protocol) {
  return in_network_namespace(netns_fd, [&] { return open(protocol); });
}

Result<void> NetlinkSocket::run(NetlinkBatch& batch, const std::function<void(const nlmsghdr*)>& each) {
  batch.finish();
  if (batch.empty()) return {};
  // Numbers of our own: an answer that an earlier, failed run left in the socket is not taken for ours.
  const std::uint32_t first = sequence_ + 1;
  const auto count = static_cast<std::uint32_t>(batch.whats_.size());
  sequence_ += count;
  std::size_t awaited = 0;
  for (std::size_t at = 0, i = 0; at < batch.used_; ++i) {
    auto* message = reinterpret_cast<nlmsghdr*>(batch.buffer_.data() + at);
    message->nlmsg_seq = first + static_cast<std::uint32_t>(i);
    const bool dump = (message->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    if (dump || message->nlmsg_flags & NLM_F_ACK) ++awaited;
    at += MNL_ALIGN(message->nlmsg_len);
  }
  if (batch.used_ > (64 << 10)) {
    const int bytes = static_cast<int>(2 * batch.used_ + (64 << 10));
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
  }
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (::sendto(fd_.get(), batch.buffer_.data(), batch.used_, 0, reinterpret_cast<const sockaddr*>(&kernel),
               sizeof kernel) < 0)
    return sys::from_errno(batch.whats_.front() + ": send to netlink", errno);

  std::optional<Failure> failed;
  const auto received = std::make_unique_for_overwrite<char[]>(kReceiveBytes);
  while (awaited > 0) {
    // The kernel has answered before send() returned (the next part of a dump is made by recv() itself), so there is
    // nothing to wait for.
    const ssize_t size = ::recv(fd_.get(), received.get(), kReceiveBytes, MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && failed) break;  // a transaction that was given up answers only what failed
    if (size < 0) return sys::from_errno(batch.whats_.back() + ": answer from netlink", errno);
    int left = static_cast<int>(size);
    for (const auto* message = reinterpret_cast<const nlmsghdr*>(received.get()); mnl_nlmsg_ok(message, left);
         message = mnl_nlmsg_next(message, &left)) {
      const std::uint32_t number = message->nlmsg_seq - first;
      if (number >= count) continue;
      if (message->nlmsg_flags & NLM_F_DUMP_INTR && !failed)
        failed = sys::from_errno(batch.whats_[number] + ": changed while it was read", EAGAIN);
      if (message->nlmsg_type == NLMSG_ERROR) {
        const auto* error = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(message));
        if (error->error != 0 && !failed)
          failed = kernel_error(batch.whats_[number], -error->error, extended_ack(message));
        --awaited;
      } else if (message->nlmsg_type == NLMSG_DONE) {
        const int status = *static_cast<const int*>(mnl_nlmsg_get_payload(message));
        if (status < 0 && !failed) failed = sys::from_errno(batch.whats_[number], -status);
        --awaited;
      } else if (each) {
        each(message);
      }
    }
  }
  if (failed) return *failed;
  return {};
}

}  // namespace osb::kernel
