#include "kernel/connection_limit.h"

#include <algorithm>
#include <linux/netfilter.h>

#include "base/parse_number.h"
#include "sys/text_file.h"

namespace osb::kernel {
namespace {

constexpr unsigned kSecondsOfNewTcp = 40;
constexpr std::int64_t kEntriesPerConnection = 5;  // of a sandbox that opens and closes as fast as it may
constexpr std::uint64_t kConnectionsPerMeter = 1024, kMostMeters = 1024;
constexpr std::uint32_t kPlaces = 1024;

// Numbers below `count` with a meter each. Not one meter of the set: when copies of that go, kernels (6.18) take back a
// reference to connection tracking that they never took, until tracking is off for the whole host.
void add_meters(NftBatch& batch, const std::string& set, std::uint32_t count,
                const std::function<NftMeter(std::uint32_t)>& meter) {
  batch.add_set(set, {NftField::Number});
  std::vector<NftElement> elements;
  for (std::uint32_t i = 0; i < count; ++i) {
    NftElement each;
    each.key.number(i);
    each.meter = meter(i);
    elements.push_back(std::move(each));
  }
  batch.add_elements(set, elements);
}

}  // namespace

NftMeter new_tcp_meter(std::uint64_t connections) {
  return {.of = NftMeter::Of::PacketsPerSecond,
          .most = std::max<std::uint64_t>(1, connections / kSecondsOfNewTcp),
          .burst = static_cast<std::uint32_t>(connections)};
}

std::int64_t connections_of_all(std::int64_t table) {
  return std::max<std::int64_t>(table * 3 / 4 / kEntriesPerConnection, 1);
}

Result<std::int64_t> connection_table() {
  const auto text = sys::read_text("/proc/sys/net/netfilter/nf_conntrack_max");
  if (!text) return Failure(text.error());
  return parse_number<std::int64_t>(text->substr(0, text->find('\n'))).value_or(0);
}

// The kernel walks the list of a meter's connections for each new one, so one meter for all would be slow: there is one
// for each thousand connections, and new connections take turns. A packet that meets a full one is dropped; the next
// try comes to another one.
void put_connection_limit(NftBatch& batch, const ConnectionLimit& limit, const std::function<NftRule()>& begins) {
  const auto meters =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(limit.most / kConnectionsPerMeter, 1, kMostMeters));
  add_meters(batch, limit.set, meters, [&](std::uint32_t i) {
    return NftMeter{.of = NftMeter::Of::Connections, .most = limit.most / meters + (i < limit.most % meters ? 1 : 0)};
  });
  batch.add_chain({.name = limit.chain, .hook = NF_INET_PRE_ROUTING, .priority = limit.priority});
  batch.add_rule(limit.chain, std::move(begins().tcp().beyond(new_tcp_meter(limit.most)).drop()));
  batch.add_rule(limit.chain, std::move(begins().in_set_by_turns(limit.set, meters).drop()));
}

void put_connection_limit_per_source(NftBatch& batch, const ConnectionLimit& limit,
                                     const std::function<NftRule()>& begins) {
  const std::string new_tcp = limit.set + "_tcp";
  add_meters(batch, limit.set, kPlaces,
             [&](std::uint32_t) { return NftMeter{.of = NftMeter::Of::Connections, .most = limit.most}; });
  add_meters(batch, new_tcp, kPlaces, [&](std::uint32_t) { return new_tcp_meter(limit.most); });
  batch.add_chain({.name = limit.chain, .hook = NF_INET_PRE_ROUTING, .priority = limit.priority});
  batch.add_rule(limit.chain, std::move(begins().tcp().in_set_by_source(new_tcp, kPlaces).drop()));
  batch.add_rule(limit.chain, std::move(begins().in_set_by_source(limit.set, kPlaces).drop()));
}

}  // namespace osb::kernel
