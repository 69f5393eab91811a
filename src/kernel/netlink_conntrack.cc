#include "kernel/netlink_conntrack.h"

#include <algorithm>
#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <sys/socket.h>
#include <vector>

namespace osb::kernel {
namespace {

constexpr std::size_t kDeleteBatch = 64;  // acknowledgements that fit into the socket's buffer by far

std::uint16_t message_type(int message) { return static_cast<std::uint16_t>(NFNL_SUBSYS_CTNETLINK << 8 | message); }

void put_header(nlmsghdr* message) {
  auto* header = static_cast<nfgenmsg*>(mnl_nlmsg_put_extra_header(message, sizeof(nfgenmsg)));
  header->nfgen_family = AF_INET;
  header->version = NFNETLINK_V0;
}

// The data that is needed to delete exactly one entry.
struct Entry {
  std::vector<char> original;  // content of CTA_TUPLE_ORIG
  std::uint32_t id = 0;
};

std::uint32_t source_of(const nlattr* tuple) {
  std::uint32_t source = 0;
  for_each_nested(tuple, [&](const nlattr* part) {
    if (mnl_attr_get_type(part) != CTA_TUPLE_IP) return;
    for_each_nested(part, [&](const nlattr* address) {
      if (mnl_attr_get_type(address) == CTA_IP_V4_SRC) source = ntohl(mnl_attr_get_u32(address));
    });
  });
  return source;
}

Result<std::vector<Entry>> find_entries(NetlinkSocket& socket, const std::function<bool(std::uint32_t)>& chosen) {
  NetlinkBatch batch;
  put_header(batch.begin(message_type(IPCTNL_MSG_CT_GET), NLM_F_DUMP, "list tracked connections"));
  std::vector<Entry> found;
  const auto done = socket.run(batch, [&](const nlmsghdr* answer) {
    Entry entry;
    bool ours = false;
    for_each_attribute(answer, sizeof(nfgenmsg), [&](const nlattr* attribute) {
      const std::uint16_t type = mnl_attr_get_type(attribute);
      if (type == CTA_TUPLE_ORIG || type == CTA_TUPLE_REPLY) ours |= chosen(source_of(attribute));
      if (type == CTA_ID) entry.id = mnl_attr_get_u32(attribute);
      if (type == CTA_TUPLE_ORIG) {
        const auto* data = static_cast<const char*>(mnl_attr_get_payload(attribute));
        entry.original.assign(data, data + mnl_attr_get_payload_len(attribute));
      }
    });
    if (ours && !entry.original.empty()) found.push_back(std::move(entry));
  });
  if (!done) return Failure(done.error());
  return found;
}

}  // namespace

Result<unsigned> forget_connections(NetlinkSocket& socket, const std::function<bool(std::uint32_t)>& chosen) {
  const auto entries = find_entries(socket, chosen);
  if (!entries) return Failure(entries.error());
  for (std::size_t begin = 0; begin < entries->size(); begin += kDeleteBatch) {
    NetlinkBatch batch;
    for (std::size_t i = begin; i < std::min(begin + kDeleteBatch, entries->size()); ++i) {
      const Entry& entry = (*entries)[i];
      nlmsghdr* message = batch.begin(message_type(IPCTNL_MSG_CT_DELETE), NLM_F_ACK, "forget a connection");
      put_header(message);
      // Never without its tuple: that would mean all connections of the host.
      mnl_attr_put(message, CTA_TUPLE_ORIG | NLA_F_NESTED, entry.original.size(), entry.original.data());
      mnl_attr_put_u32(message, CTA_ID, entry.id);
    }
    const auto done = socket.run(batch);
    if (!done && done.error().sys_errno != ENOENT) return Failure(done.error());  // it may end by itself meanwhile
  }
  return static_cast<unsigned>(entries->size());
}

}  // namespace osb::kernel
