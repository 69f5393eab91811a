#include "kernel/netlink_rate.h"

#include <algorithm>
#include <limits>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <fmt/format.h>

namespace osb::kernel {
namespace {

void put_header(nlmsghdr* message, unsigned index) {
  auto* header = static_cast<tcmsg*>(mnl_nlmsg_put_extra_header(message, sizeof(tcmsg)));
  header->tcm_family = AF_UNSPEC;
  header->tcm_ifindex = static_cast<int>(index);
  header->tcm_parent = TC_H_ROOT;
}

}  // namespace

void set_send_rate(NetlinkBatch& batch, unsigned index, const SendRate& rate) {
  nlmsghdr* message = batch.begin(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK,
                                  fmt::format("limit the rate of interface {}", index));
  put_header(message, index);
  mnl_attr_put_strz(message, TCA_KIND, "tbf");
  nlattr* options = mnl_attr_nest_start(message, TCA_OPTIONS);
  tc_tbf_qopt parameters{};
  parameters.rate.linklayer = TC_LINKLAYER_ETHERNET;
  // The field has 32 bits; the attribute after it has all.
  parameters.rate.rate = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(rate.bytes_per_second, std::numeric_limits<std::uint32_t>::max()));
  parameters.limit = rate.queue;
  mnl_attr_put(message, TCA_TBF_PARMS, sizeof parameters, &parameters);
  mnl_attr_put_u64(message, TCA_TBF_RATE64, rate.bytes_per_second);
  mnl_attr_put_u32(message, TCA_TBF_BURST, rate.burst);
  mnl_attr_nest_end(message, options);
}

void clear_send_rate(NetlinkBatch& batch, unsigned index) {
  put_header(batch.begin(RTM_DELQDISC, NLM_F_ACK, fmt::format("lift the rate of interface {}", index)), index);
}

}  // namespace osb::kernel
