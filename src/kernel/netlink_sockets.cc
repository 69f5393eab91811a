#include "kernel/netlink_sockets.h"

#include <algorithm>
#include <charconv>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string_view>
#include <sys/socket.h>
#include <vector>

#include "kernel/netlink.h"
#include "sys/text_file.h"

namespace osb::kernel {
namespace {

constexpr std::size_t kDestroyBatch = 64;  // acknowledgements that fit into the socket's buffer by far

// The number after `key` in a line like "TCP: inuse 3 orphan 0 tw 1 alloc 3 mem 0".
unsigned number_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  unsigned value = 0;
  if (at != std::string_view::npos) std::from_chars(line.data() + at + key.size(), line.data() + line.size(), value);
  return value;
}

void add_counts(SocketCounts& counts, std::string_view text) {
  sys::for_each_line(text, [&](std::string_view line) {
    const unsigned used = number_after(line, " inuse ");
    if (line.starts_with("TCP")) counts.tcp += used;
    if (line.starts_with("TCP:")) counts.time_wait = number_after(line, " tw ");
    if (line.starts_with("UDP")) counts.udp += used;
    if (line.starts_with("RAW")) counts.raw += used;
  });
}

Result<std::vector<inet_diag_sockid>> list_tcp(NetlinkSocket& socket, std::uint8_t family) {
  NetlinkBatch batch;
  nlmsghdr* message = batch.begin(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, "list TCP sockets");
  auto* request = static_cast<inet_diag_req_v2*>(mnl_nlmsg_put_extra_header(message, sizeof(inet_diag_req_v2)));
  request->sdiag_family = family;
  request->sdiag_protocol = IPPROTO_TCP;
  request->idiag_states = ~0U;
  std::vector<inet_diag_sockid> found;
  const auto done = socket.run(batch, [&](const nlmsghdr* answer) {
    found.push_back(static_cast<const inet_diag_msg*>(mnl_nlmsg_get_payload(answer))->id);
  });
  if (!done) return Failure(done.error());
  return found;
}

Result<void> destroy(NetlinkSocket& socket, std::uint8_t family, const std::vector<inet_diag_sockid>& ids) {
  for (std::size_t begin = 0; begin < ids.size(); begin += kDestroyBatch) {
    NetlinkBatch batch;
    for (std::size_t i = begin; i < std::min(begin + kDestroyBatch, ids.size()); ++i) {
      nlmsghdr* message = batch.begin(SOCK_DESTROY, NLM_F_ACK, "end a TCP socket");
      auto* request = static_cast<inet_diag_req_v2*>(mnl_nlmsg_put_extra_header(message, sizeof(inet_diag_req_v2)));
      request->sdiag_family = family;
      request->sdiag_protocol = IPPROTO_TCP;
      request->id = ids[i];
    }
    const auto done = socket.run(batch);
    if (done || done.error().sys_errno == ENOENT) continue;  // it may end by itself meanwhile
    if (done.error().sys_errno == EOPNOTSUPP) return fail(Code::Unsupported, "this kernel cannot end TCP sockets");
    return done;
  }
  return {};
}

}  // namespace

Result<SocketCounts> count_sockets(int netns_fd) {
  return in_network_namespace(netns_fd, [&]() -> Result<SocketCounts> {
    SocketCounts counts;
    const auto v4 = sys::read_text("/proc/thread-self/net/sockstat");
    if (!v4) return Failure(v4.error());
    add_counts(counts, *v4);
    // Absent where the kernel has no IPv6.
    if (const auto v6 = sys::read_text("/proc/thread-self/net/sockstat6")) add_counts(counts, *v6);
    return counts;
  });
}

Result<void> end_tcp_sockets(int netns_fd) {
  auto socket = NetlinkSocket::open_in(netns_fd, NETLINK_SOCK_DIAG);
  if (!socket) return Failure(socket.error());
  for (const std::uint8_t family : {AF_INET, AF_INET6}) {
    const auto ids = list_tcp(*socket, family);
    if (!ids) return Failure(ids.error());
    if (const auto done = destroy(*socket, family, *ids); !done) return done;
  }
  return {};
}

Result<void> end_tcp_connections_to(std::uint32_t address) {
  auto socket = NetlinkSocket::open(NETLINK_SOCK_DIAG);
  if (!socket) return Failure(socket.error());
  const std::uint32_t v4 = htonl(address);
  const std::uint32_t mapped[] = {0, 0, htonl(0xffff), v4};
  for (const std::uint8_t family : {AF_INET, AF_INET6}) {
    auto ids = list_tcp(*socket, family);
    if (!ids) return Failure(ids.error());
    std::erase_if(*ids, [&](const inet_diag_sockid& id) {
      return family == AF_INET ? id.idiag_dst[0] != v4 : !std::ranges::equal(id.idiag_dst, mapped);
    });
    if (const auto done = destroy(*socket, family, *ids); !done) return done;
  }
  return {};
}

}  // namespace osb::kernel
