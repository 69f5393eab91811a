#include "kernel/nftables.h"

#include <algorithm>
#include <arpa/inet.h>
#include <libnftnl/chain.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

namespace osb::kernel {
namespace {

constexpr std::size_t kElementsPerMessage = 200;  // an attribute holds 64 KiB; an element takes about 60 bytes
constexpr std::size_t kBytesPerElement = 128;

// Numbers by which the nft program knows types, so that `nft list table` shows values as people expect them.
std::uint32_t type_of(NftField field) {
  switch (field) {
    case NftField::InputInterface:
      return 41;  // ifname
    case NftField::Source:
    case NftField::Destination:
      return 7;  // ipv4_addr
    case NftField::Protocol:
      return 12;  // inet_proto
    case NftField::DestinationPort:
      return 13;  // inet_service
    case NftField::Number:
      return 19;  // mark
  }
  return 0;
}

std::uint32_t size_of(NftField field) {
  return field == NftField::InputInterface    ? 16
         : field == NftField::Protocol        ? 1
         : field == NftField::DestinationPort ? 2
                                              : 4;
}

std::uint32_t padded(std::uint32_t size) { return (size + 3) / 4 * 4; }

struct TypeAndSize {
  std::uint32_t type = 0;
  std::uint32_t size = 0;
};

TypeAndSize layout(const std::vector<NftField>& fields) {
  TypeAndSize all;
  for (const NftField field : fields) {
    all.type = all.type << 6 | type_of(field);
    all.size += padded(size_of(field));
  }
  return all;
}

std::uint16_t message_type(int message) { return static_cast<std::uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | message); }

void put_header(nlmsghdr* message, std::uint8_t family, std::uint16_t resource = 0) {
  auto* header = static_cast<nfgenmsg*>(mnl_nlmsg_put_extra_header(message, sizeof(nfgenmsg)));
  header->nfgen_family = family;
  header->version = NFNETLINK_V0;
  header->res_id = htons(resource);
}

template <typename T, void (*free_fn)(const T*)>
struct Freer {
  void operator()(const T* object) const { free_fn(object); }
};
using Table = std::unique_ptr<nftnl_table, Freer<nftnl_table, nftnl_table_free>>;
using Chain = std::unique_ptr<nftnl_chain, Freer<nftnl_chain, nftnl_chain_free>>;
using Set = std::unique_ptr<nftnl_set, Freer<nftnl_set, nftnl_set_free>>;
using Rule = std::unique_ptr<nftnl_rule, Freer<nftnl_rule, nftnl_rule_free>>;

template <typename P>
P checked(P object) {
  if (!object) throw std::bad_alloc();
  return object;
}

// The kernel keeps an interval of one field as two elements: its beginning, and the first value behind it. nullptr: no
// value is behind it.
nftnl_set_elem* interval_end(const NftValue& last) {
  std::vector<std::uint8_t> next = last.bytes();
  for (auto byte = next.rbegin(); byte != next.rend() && ++*byte == 0;) ++byte;
  if (std::ranges::all_of(next, [](std::uint8_t byte) { return byte == 0; })) return nullptr;
  nftnl_set_elem* element = checked(nftnl_set_elem_alloc());
  nftnl_set_elem_set(element, NFTNL_SET_ELEM_KEY, next.data(), static_cast<std::uint32_t>(next.size()));
  nftnl_set_elem_set_u32(element, NFTNL_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
  return element;
}

}  // namespace

nftnl_expr* make_meter(const NftMeter& meter) {
  if (meter.of == NftMeter::Of::Connections) {
    nftnl_expr* made = checked(nftnl_expr_alloc("connlimit"));
    nftnl_expr_set_u32(made, NFTNL_EXPR_CONNLIMIT_COUNT, static_cast<std::uint32_t>(meter.most));
    nftnl_expr_set_u32(made, NFTNL_EXPR_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
    return made;
  }
  const bool bytes = meter.of == NftMeter::Of::BytesPerSecond;
  nftnl_expr* made = checked(nftnl_expr_alloc("limit"));
  nftnl_expr_set_u64(made, NFTNL_EXPR_LIMIT_RATE, meter.most);
  nftnl_expr_set_u64(made, NFTNL_EXPR_LIMIT_UNIT, 1);
  nftnl_expr_set_u32(made, NFTNL_EXPR_LIMIT_BURST, meter.burst);
  nftnl_expr_set_u32(made, NFTNL_EXPR_LIMIT_TYPE, bytes ? NFT_LIMIT_PKT_BYTES : NFT_LIMIT_PKTS);
  nftnl_expr_set_u32(made, NFTNL_EXPR_LIMIT_FLAGS, NFT_LIMIT_F_INV);
  return made;
}

NftValue& NftValue::interface(std::string_view name) {
  const std::size_t end = bytes_.size() + 16;
  bytes_.insert(bytes_.end(), name.begin(),
                name.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(name.size(), 15)));
  bytes_.resize(end);
  return *this;
}

NftValue& NftValue::address(std::uint32_t address) {
  for (const int shift : {24, 16, 8, 0}) bytes_.push_back(static_cast<std::uint8_t>(address >> shift));
  return *this;
}

NftValue& NftValue::protocol(std::uint8_t number) {
  bytes_.insert(bytes_.end(), {number, 0, 0, 0});
  return *this;
}

NftValue& NftValue::port(std::uint16_t port) {
  bytes_.insert(bytes_.end(), {static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port), 0, 0});
  return *this;
}

NftValue& NftValue::number(std::uint32_t number) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&number);
  bytes_.insert(bytes_.end(), bytes, bytes + sizeof number);
  return *this;
}

NftBatch::NftBatch(std::string table) : table_(std::move(table)) {
  put_header(batch_.begin(NFNL_MSG_BATCH_BEGIN, 0, "nftables transaction"), AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
}

nlmsghdr* NftBatch::begin(int message, std::uint16_t flags, std::string what, std::size_t room) {
  ++changes_;
  nlmsghdr* header = batch_.begin(message_type(message), flags, "table " + table_ + ": " + what, room);
  put_header(header, NFPROTO_INET);
  return header;
}

void NftBatch::add_table() {
  const Table table = checked(Table(nftnl_table_alloc()));
  nftnl_table_set_str(table.get(), NFTNL_TABLE_NAME, table_.c_str());
  nftnl_table_set_u32(table.get(), NFTNL_TABLE_FLAGS, 0);
  nftnl_table_nlmsg_build_payload(begin(NFT_MSG_NEWTABLE, NLM_F_CREATE, "add"), table.get());
}

void NftBatch::delete_table() {
  const Table table = checked(Table(nftnl_table_alloc()));
  nftnl_table_set_str(table.get(), NFTNL_TABLE_NAME, table_.c_str());
  nftnl_table_nlmsg_build_payload(begin(NFT_MSG_DELTABLE, 0, "delete"), table.get());
}

void NftBatch::add_chain(const NftChain& wanted) {
  const Chain chain = checked(Chain(nftnl_chain_alloc()));
  nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_TABLE, table_.c_str());
  nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_NAME, wanted.name.c_str());
  nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_TYPE, wanted.type);
  nftnl_chain_set_u32(chain.get(), NFTNL_CHAIN_HOOKNUM, wanted.hook);
  nftnl_chain_set_s32(chain.get(), NFTNL_CHAIN_PRIO, wanted.priority);
  nftnl_chain_set_u32(chain.get(), NFTNL_CHAIN_POLICY, wanted.drop_by_default ? NF_DROP : NF_ACCEPT);
  nftnl_chain_nlmsg_build_payload(begin(NFT_MSG_NEWCHAIN, NLM_F_CREATE, "add chain " + wanted.name), chain.get());
}

void NftBatch::add_chain(const std::string& name) {
  const Chain chain = checked(Chain(nftnl_chain_alloc()));
  nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_TABLE, table_.c_str());
  nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_NAME, name.c_str());
  nftnl_chain_nlmsg_build_payload(begin(NFT_MSG_NEWCHAIN, NLM_F_CREATE, "add chain " + name), chain.get());
}

void NftBatch::put_set(const std::string& name, const std::vector<NftField>& key, std::uint32_t flags,
                       const std::optional<NftMeter>& meter) {
  const Set set = checked(Set(nftnl_set_alloc()));
  nftnl_set_set_str(set.get(), NFTNL_SET_TABLE, table_.c_str());
  nftnl_set_set_str(set.get(), NFTNL_SET_NAME, name.c_str());
  nftnl_set_set_u32(set.get(), NFTNL_SET_ID, ++sets_);
  nftnl_set_set_u32(set.get(), NFTNL_SET_FAMILY, NFPROTO_INET);
  const auto [type, size] = layout(key);
  nftnl_set_set_u32(set.get(), NFTNL_SET_KEY_TYPE, type);
  nftnl_set_set_u32(set.get(), NFTNL_SET_KEY_LEN, size);
  if (flags != 0) nftnl_set_set_u32(set.get(), NFTNL_SET_FLAGS, flags);
  if ((flags & NFT_SET_CONCAT) != 0) {
    std::vector<std::uint8_t> sizes;
    for (const NftField field : key) sizes.push_back(static_cast<std::uint8_t>(size_of(field)));
    nftnl_set_set_data(set.get(), NFTNL_SET_DESC_CONCAT, sizes.data(), static_cast<std::uint32_t>(sizes.size()));
  }
  if ((flags & NFT_SET_MAP) != 0) {
    const auto [data_type, data_size] = layout({NftField::Destination, NftField::DestinationPort});
    nftnl_set_set_u32(set.get(), NFTNL_SET_DATA_TYPE, data_type);
    nftnl_set_set_u32(set.get(), NFTNL_SET_DATA_LEN, data_size);
  }
  if (meter) nftnl_set_add_expr(set.get(), make_meter(*meter));
  nftnl_set_nlmsg_build_payload(begin(NFT_MSG_NEWSET, NLM_F_CREATE, "add set " + name), set.get());
}

void NftBatch::add_set(const std::string& name, const std::vector<NftField>& key,
                       const std::optional<NftMeter>& meter) {
  put_set(name, key, 0, meter);
}

void NftBatch::add_timed_set(const std::string& name, const std::vector<NftField>& key) {
  put_set(name, key, NFT_SET_TIMEOUT, {});
}

void NftBatch::add_interval_set(const std::string& name, const std::vector<NftField>& key) {
  put_set(name, key, NFT_SET_INTERVAL | (key.size() > 1 ? NFT_SET_CONCAT : 0), {});
}

void NftBatch::add_map(const std::string& name, const std::vector<NftField>& key) {
  put_set(name, key, NFT_SET_MAP, {});
}

void NftBatch::add_rule(const std::string& chain, NftRule rule) {
  const Rule owned(rule.release());
  nftnl_rule_set_str(owned.get(), NFTNL_RULE_TABLE, table_.c_str());
  nftnl_rule_set_str(owned.get(), NFTNL_RULE_CHAIN, chain.c_str());
  nftnl_rule_set_u32(owned.get(), NFTNL_RULE_FAMILY, NFPROTO_INET);
  nftnl_rule_nlmsg_build_payload(begin(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, "add rule to " + chain),
                                 owned.get());
}

void NftBatch::put_elements(int message, const std::string& name, const std::vector<NftElement>& elements) {
  const bool add = message == NFT_MSG_NEWSETELEM;
  for (std::size_t begin_at = 0; begin_at < elements.size(); begin_at += kElementsPerMessage) {
    const Set set = checked(Set(nftnl_set_alloc()));
    nftnl_set_set_str(set.get(), NFTNL_SET_TABLE, table_.c_str());
    nftnl_set_set_str(set.get(), NFTNL_SET_NAME, name.c_str());
    const std::size_t end = std::min(begin_at + kElementsPerMessage, elements.size());
    for (std::size_t i = begin_at; i < end; ++i) {
      nftnl_set_elem* element = checked(nftnl_set_elem_alloc());
      const auto put = [&](std::uint16_t attribute, const NftValue& value) {
        nftnl_set_elem_set(element, attribute, value.bytes().data(), static_cast<std::uint32_t>(value.bytes().size()));
      };
      put(NFTNL_SET_ELEM_KEY, elements[i].key);
      if (add && !elements[i].data.bytes().empty()) put(NFTNL_SET_ELEM_DATA, elements[i].data);
      if (add && elements[i].lifetime.count() > 0) {
        nftnl_set_elem_set_u64(element, NFTNL_SET_ELEM_TIMEOUT,
                               static_cast<std::uint64_t>(elements[i].lifetime.count()));
      }
      if (add && elements[i].meter) nftnl_set_elem_add_expr(element, make_meter(*elements[i].meter));
      nftnl_set_elem_add(set.get(), element);
      if (!elements[i].last) continue;
      if (elements[i].key.bytes().size() > sizeof(std::uint32_t)) {
        put(NFTNL_SET_ELEM_KEY_END, *elements[i].last);
      } else if (nftnl_set_elem* end_mark = interval_end(*elements[i].last)) {
        nftnl_set_elem_add(set.get(), end_mark);
      }
    }
    nftnl_set_elems_nlmsg_build_payload(
        begin(message, add ? NLM_F_CREATE : 0, (add ? "add to " : "delete from ") + name,
              1024 + (end - begin_at) * kBytesPerElement),
        set.get());
  }
}

void NftBatch::add_elements(const std::string& set, const std::vector<NftElement>& elements) {
  put_elements(NFT_MSG_NEWSETELEM, set, elements);
}

void NftBatch::delete_elements(const std::string& set, const std::vector<NftElement>& elements) {
  put_elements(NFT_MSG_DELSETELEM, set, elements);
}

Result<void> NftBatch::commit(NetlinkSocket& netfilter) {
  if (empty()) return {};
  batch_.acknowledge();  // one answer stands for all: every message that fails answers anyway
  put_header(batch_.begin(NFNL_MSG_BATCH_END, 0, "nftables transaction"), AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
  return netfilter.run(batch_);
}

Result<std::vector<NftChainInfo>> list_chains(NetlinkSocket& netfilter) {
  NetlinkBatch batch;
  put_header(batch.begin(message_type(NFT_MSG_GETCHAIN), NLM_F_DUMP, "list nftables chains"), AF_UNSPEC);
  std::vector<NftChainInfo> found;
  const auto done = netfilter.run(batch, [&](const nlmsghdr* answer) {
    const Chain chain = checked(Chain(nftnl_chain_alloc()));
    if (nftnl_chain_nlmsg_parse(answer, chain.get()) < 0) return;
    const auto text = [&](std::uint16_t attribute) -> std::string {
      const char* value = nftnl_chain_get_str(chain.get(), attribute);
      return value != nullptr ? value : "";
    };
    NftChainInfo info{.family = static_cast<int>(nftnl_chain_get_u32(chain.get(), NFTNL_CHAIN_FAMILY)),
                      .table = text(NFTNL_CHAIN_TABLE),
                      .name = text(NFTNL_CHAIN_NAME),
                      .type = text(NFTNL_CHAIN_TYPE),
                      .hook = {},
                      .drops_by_default = false};
    if (nftnl_chain_is_set(chain.get(), NFTNL_CHAIN_HOOKNUM))
      info.hook = nftnl_chain_get_u32(chain.get(), NFTNL_CHAIN_HOOKNUM);
    if (nftnl_chain_is_set(chain.get(), NFTNL_CHAIN_POLICY))
      info.drops_by_default = nftnl_chain_get_u32(chain.get(), NFTNL_CHAIN_POLICY) == NF_DROP;
    found.push_back(std::move(info));
  });
  if (!done) return Failure(done.error());
  return found;
}

namespace {

// Calls fn(element) for each element of a set.
template <typename F>
Result<void> for_each_element(NetlinkSocket& netfilter, const std::string& table, const std::string& set, F fn) {
  NetlinkBatch batch;
  nlmsghdr* message = batch.begin(message_type(NFT_MSG_GETSETELEM), NLM_F_DUMP, "list elements of " + set);
  put_header(message, NFPROTO_INET);
  mnl_attr_put_strz(message, NFTA_SET_ELEM_LIST_TABLE, table.c_str());
  mnl_attr_put_strz(message, NFTA_SET_ELEM_LIST_SET, set.c_str());
  const Set found = checked(Set(nftnl_set_alloc()));
  const auto done =
      netfilter.run(batch, [&](const nlmsghdr* answer) { nftnl_set_elems_nlmsg_parse(answer, found.get()); });
  if (!done) return done;
  nftnl_set_elem_foreach(
      found.get(), [](nftnl_set_elem* element, void* context) { return (*static_cast<F*>(context))(element), 0; }, &fn);
  return {};
}

std::vector<std::uint8_t> key_of(nftnl_set_elem* element) {
  std::uint32_t size = 0;
  const auto* key = static_cast<const std::uint8_t*>(nftnl_set_elem_get(element, NFTNL_SET_ELEM_KEY, &size));
  return key != nullptr ? std::vector<std::uint8_t>(key, key + size) : std::vector<std::uint8_t>();
}

}  // namespace

Result<std::vector<std::vector<std::uint8_t>>> list_elements(NetlinkSocket& netfilter, const std::string& table,
                                                             const std::string& set) {
  std::vector<std::vector<std::uint8_t>> keys;
  const auto done = for_each_element(netfilter, table, set, [&](nftnl_set_elem* element) {
    if (auto key = key_of(element); !key.empty()) keys.push_back(std::move(key));
  });
  if (!done) return Failure(done.error());
  return keys;
}

Result<std::vector<NftTimedKey>> list_timed_elements(NetlinkSocket& netfilter, const std::string& table,
                                                     const std::string& set) {
  std::vector<NftTimedKey> out;
  const auto done = for_each_element(netfilter, table, set, [&](nftnl_set_elem* element) {
    auto key = key_of(element);
    if (key.empty() || !nftnl_set_elem_is_set(element, NFTNL_SET_ELEM_EXPIRATION)) return;
    const std::chrono::milliseconds left(nftnl_set_elem_get_u64(element, NFTNL_SET_ELEM_EXPIRATION));
    out.push_back({.key = std::move(key), .left = left});
  });
  if (!done) return Failure(done.error());
  return out;
}

}  // namespace osb::kernel
