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

TrackedFlow flow_of(const nlattr* tuple) {
  TrackedFlow flow;
  for_each_nested(tuple, [&](const nlattr* part) {
    const std::uint16_t kind = mnl_attr_get_type(part);
    for_each_nested(part, [&](const nlattr* value) {
      const std::uint16_t type = mnl_attr_get_type(value);
      if (kind == CTA_TUPLE_IP && type == CTA_IP_V4_SRC) flow.source = ntohl(mnl_attr_get_u32(value));
      if (kind == CTA_TUPLE_IP && type == CTA_IP_V4_DST) flow.destination = ntohl(mnl_attr_get_u32(value));
      if (kind == CTA_TUPLE_PROTO && type == CTA_PROTO_NUM) flow.protocol = mnl_attr_get_u8(value);
      if (kind == CTA_TUPLE_PROTO && type == CTA_PROTO_DST_PORT) flow.destination_port = ntohs(mnl_attr_get_u16(value));
    });
  });
  return flow;
}

struct Tuples {
  TrackedFlow original, reply;
};

template <typename F>
Result<std::vector<Entry>> find_entries(NetlinkSocket& socket, F chosen) {
  NetlinkBatch batch;
  put_header(batch.begin(message_type(IPCTNL_MSG_CT_GET), NLM_F_DUMP, "list tracked connections"));
  std::vector<Entry> found;
  const auto done = socket.run(batch, [&](const nlmsghdr* answer) {
    Entry entry;
    Tuples tuples;
    for_each_attribute(answer, sizeof(nfgenmsg), [&](const nlattr* attribute) {
      const std::uint16_t type = mnl_attr_get_type(attribute);
      if (type == CTA_TUPLE_REPLY) tuples.reply = flow_of(attribute);
      if (type == CTA_ID) entry.id = mnl_attr_get_u32(attribute);
      if (type == CTA_TUPLE_ORIG) {
        tuples.original = flow_of(attribute);
        const auto* data = static_cast<const char*>(mnl_attr_get_payload(attribute));
        entry.original.assign(data, data + mnl_attr_get_payload_len(attribute));
      }
    });
    if (!entry.original.empty() && chosen(tuples)) found.push_back(std::move(entry));
  });
  if (!done) return Failure(done.error());
  return found;
}

Result<unsigned> forget(NetlinkSocket& socket, const Result<std::vector<Entry>>& entries) {
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

}  // namespace

Result<unsigned> forget_connections(NetlinkSocket& socket, const std::function<bool(std::uint32_t)>& chosen) {
  return forget(socket, find_entries(socket, [&](const Tuples& tuples) {
                  return chosen(tuples.original.source) || chosen(tuples.reply.source);
                }));
}

Result<unsigned> forget_flows(NetlinkSocket& socket, const std::function<bool(const TrackedFlow&)>& chosen) {
  return forget(socket, find_entries(socket, [&](const Tuples& tuples) { return chosen(tuples.original); }));
}

}  // namespace osb::kernel
