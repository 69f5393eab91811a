#include <arpa/inet.h>
#include <cstddef>
#include <cstdio>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tuple_common.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/in.h>
#include <new>

#include "kernel/nftables.h"

namespace osb::kernel {
namespace {

// Registers of four bytes. Every match begins again with the first one.
constexpr std::uint32_t kRegister = NFT_REG32_00;

// Where fields are in the packet.
constexpr std::uint32_t kSourceOffset = 12;       // IPv4 header
constexpr std::uint32_t kDestinationOffset = 16;  // IPv4 header
constexpr std::uint32_t kPortOffset = 2;          // TCP and UDP header

class Expression {
 public:
  explicit Expression(const char* name) : expression_(nftnl_expr_alloc(name)) {
    if (expression_ == nullptr) throw std::bad_alloc();
  }
  Expression& number(std::uint16_t attribute, std::uint32_t value) {
    nftnl_expr_set_u32(expression_, attribute, value);
    return *this;
  }
  Expression& bytes(std::uint16_t attribute, const void* data, std::size_t size) {
    nftnl_expr_set(expression_, attribute, data, static_cast<std::uint32_t>(size));
    return *this;
  }
  Expression& text(std::uint16_t attribute, const std::string& value) {
    nftnl_expr_set_str(expression_, attribute, value.c_str());
    return *this;
  }
  void add_to(nftnl_rule* rule) { nftnl_rule_add_expr(rule, expression_); }  // which owns it from here on

 private:
  nftnl_expr* expression_;
};

void load_meta(nftnl_rule* rule, std::uint32_t key, std::uint32_t reg = kRegister) {
  Expression("meta").number(NFTNL_EXPR_META_KEY, key).number(NFTNL_EXPR_META_DREG, reg).add_to(rule);
}

void load_payload(nftnl_rule* rule, std::uint32_t base, std::uint32_t offset, std::uint32_t size,
                  std::uint32_t reg = kRegister) {
  Expression("payload")
      .number(NFTNL_EXPR_PAYLOAD_BASE, base)
      .number(NFTNL_EXPR_PAYLOAD_OFFSET, offset)
      .number(NFTNL_EXPR_PAYLOAD_LEN, size)
      .number(NFTNL_EXPR_PAYLOAD_DREG, reg)
      .add_to(rule);
}

void compare(nftnl_rule* rule, const void* data, std::size_t size, bool equal = true) {
  Expression("cmp")
      .number(NFTNL_EXPR_CMP_SREG, kRegister)
      .number(NFTNL_EXPR_CMP_OP, equal ? NFT_CMP_EQ : NFT_CMP_NEQ)
      .bytes(NFTNL_EXPR_CMP_DATA, data, size)
      .add_to(rule);
}

void mask(nftnl_rule* rule, std::uint32_t bits, std::uint32_t reg = kRegister) {
  const std::uint32_t zero = 0;
  Expression("bitwise")
      .number(NFTNL_EXPR_BITWISE_SREG, reg)
      .number(NFTNL_EXPR_BITWISE_DREG, reg)
      .number(NFTNL_EXPR_BITWISE_LEN, sizeof bits)
      .bytes(NFTNL_EXPR_BITWISE_MASK, &bits, sizeof bits)
      .bytes(NFTNL_EXPR_BITWISE_XOR, &zero, sizeof zero)
      .add_to(rule);
}

std::uint32_t network_mask(unsigned length) { return length == 0 ? 0 : htonl(~0U << (32 - length)); }

void put_constant(nftnl_rule* rule, const void* data, std::size_t size, std::uint32_t reg) {
  Expression("immediate").number(NFTNL_EXPR_IMM_DREG, reg).bytes(NFTNL_EXPR_IMM_DATA, data, size).add_to(rule);
}

void match_protocol(nftnl_rule* rule, std::uint8_t protocol) {
  load_meta(rule, NFT_META_L4PROTO);
  compare(rule, &protocol, sizeof protocol);
}

void match_family(nftnl_rule* rule, std::uint8_t family) {
  load_meta(rule, NFT_META_NFPROTO);
  compare(rule, &family, sizeof family);
}

// The name's beginning is compared, which is what a trailing * means to the nft program.
void match_interface(nftnl_rule* rule, std::uint32_t key, std::string_view prefix, bool equal) {
  load_meta(rule, key);
  compare(rule, prefix.data(), prefix.size(), equal);
}

void match_network(nftnl_rule* rule, std::uint32_t offset, std::uint32_t network, unsigned prefix_length, bool equal) {
  load_payload(rule, NFT_PAYLOAD_NETWORK_HEADER, offset, 4);
  if (prefix_length < 32) mask(rule, network_mask(prefix_length));
  const std::uint32_t wanted = htonl(network);
  compare(rule, &wanted, sizeof wanted, equal);
}

// Some of the bits are set; or none of them.
void match_connection(nftnl_rule* rule, std::uint32_t key, std::uint32_t bits, bool set = true) {
  Expression("ct").number(NFTNL_EXPR_CT_KEY, key).number(NFTNL_EXPR_CT_DREG, kRegister).add_to(rule);
  mask(rule, bits);
  const std::uint32_t zero = 0;
  compare(rule, &zero, sizeof zero, !set);
}

void load_key(nftnl_rule* rule, const std::vector<NftField>& fields) {
  std::uint32_t reg = kRegister;
  for (const NftField field : fields) {
    switch (field) {
      case NftField::InputInterface:
        load_meta(rule, NFT_META_IIFNAME, reg);
        reg += 4;
        continue;
      case NftField::Source:
        load_payload(rule, NFT_PAYLOAD_NETWORK_HEADER, kSourceOffset, 4, reg);
        break;
      case NftField::Destination:
        load_payload(rule, NFT_PAYLOAD_NETWORK_HEADER, kDestinationOffset, 4, reg);
        break;
      case NftField::Protocol:
        load_meta(rule, NFT_META_L4PROTO, reg);
        break;
      case NftField::DestinationPort:
        load_payload(rule, NFT_PAYLOAD_TRANSPORT_HEADER, kPortOffset, 2, reg);
        break;
      case NftField::Number:  // of no packet: in_set_by_turns(), in_set_by_source()
        break;
    }
    ++reg;
  }
}

void verdict(nftnl_rule* rule, int code) {
  Expression("immediate")
      .number(NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT)
      .number(NFTNL_EXPR_IMM_VERDICT, static_cast<std::uint32_t>(code))
      .add_to(rule);
}

void answer_with_icmp(nftnl_rule* rule, std::uint8_t code) {
  Expression("reject")
      .number(NFTNL_EXPR_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH)
      .bytes(NFTNL_EXPR_REJECT_CODE, &code, sizeof code)
      .add_to(rule);
}

// To the address in the first register and the port in the second.
void translate_to_registers(nftnl_rule* rule) {
  Expression("nat")
      .number(NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT)
      .number(NFTNL_EXPR_NAT_FAMILY, NFPROTO_IPV4)
      .number(NFTNL_EXPR_NAT_REG_ADDR_MIN, kRegister)
      .number(NFTNL_EXPR_NAT_REG_PROTO_MIN, kRegister + 1)
      .add_to(rule);
}

}  // namespace

void NftRule::Free::operator()(nftnl_rule* rule) const { nftnl_rule_free(rule); }

NftRule::NftRule() : rule_(nftnl_rule_alloc()) {
  if (!rule_) throw std::bad_alloc();
}
NftRule::NftRule(NftRule&&) noexcept = default;
NftRule::~NftRule() = default;

NftRule& NftRule::input_interface(std::string_view prefix, bool equal) {
  match_interface(rule_.get(), NFT_META_IIFNAME, prefix, equal);
  return *this;
}

NftRule& NftRule::output_interface(std::string_view prefix, bool equal) {
  match_interface(rule_.get(), NFT_META_OIFNAME, prefix, equal);
  return *this;
}

NftRule& NftRule::ipv4() {
  match_family(rule_.get(), NFPROTO_IPV4);
  return *this;
}

NftRule& NftRule::ipv6() {
  match_family(rule_.get(), NFPROTO_IPV6);
  return *this;
}

NftRule& NftRule::source(std::uint32_t network, unsigned prefix_length, bool equal) {
  match_network(rule_.get(), kSourceOffset, network, prefix_length, equal);
  return *this;
}

NftRule& NftRule::destination(std::uint32_t network, unsigned prefix_length, bool equal) {
  match_network(rule_.get(), kDestinationOffset, network, prefix_length, equal);
  return *this;
}

NftRule& NftRule::destination_type(std::uint8_t type) {
  Expression("fib")
      .number(NFTNL_EXPR_FIB_DREG, kRegister)
      .number(NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE)
      .number(NFTNL_EXPR_FIB_FLAGS, NFTA_FIB_F_DADDR)
      .add_to(rule_.get());
  const std::uint32_t wanted = type;
  compare(rule_.get(), &wanted, sizeof wanted);
  return *this;
}

NftRule& NftRule::tcp() {
  match_protocol(rule_.get(), IPPROTO_TCP);
  return *this;
}

NftRule& NftRule::udp() {
  match_protocol(rule_.get(), IPPROTO_UDP);
  return *this;
}

NftRule& NftRule::destination_port(std::uint16_t port) {
  const std::uint16_t wanted = htons(port);
  load_payload(rule_.get(), NFT_PAYLOAD_TRANSPORT_HEADER, kPortOffset, sizeof wanted);
  compare(rule_.get(), &wanted, sizeof wanted);
  return *this;
}

NftRule& NftRule::source_port(std::uint16_t port) {
  const std::uint16_t wanted = htons(port);
  load_payload(rule_.get(), NFT_PAYLOAD_TRANSPORT_HEADER, 0, sizeof wanted);
  compare(rule_.get(), &wanted, sizeof wanted);
  return *this;
}

NftRule& NftRule::tcp_flags(std::uint8_t flags) {
  constexpr std::uint32_t kFlagsOffset = 13;
  load_payload(rule_.get(), NFT_PAYLOAD_TRANSPORT_HEADER, kFlagsOffset, sizeof flags);
  compare(rule_.get(), &flags, sizeof flags);
  return *this;
}

NftRule& NftRule::tcp_refusal() {
  constexpr std::uint8_t kResetAndAck = 0x14;
  return tcp_flags(kResetAndAck);
}

NftRule& NftRule::icmp() {
  match_protocol(rule_.get(), IPPROTO_ICMP);
  return *this;
}

NftRule& NftRule::icmp_type(std::uint8_t type) {
  icmp();
  load_payload(rule_.get(), NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1);
  compare(rule_.get(), &type, sizeof type);
  return *this;
}

NftRule& NftRule::packet_mark(std::uint32_t mark) {
  load_meta(rule_.get(), NFT_META_MARK);
  compare(rule_.get(), &mark, sizeof mark);
  return *this;
}

NftRule& NftRule::socket_owner(std::uint32_t uid) {
  load_meta(rule_.get(), NFT_META_SKUID);
  compare(rule_.get(), &uid, sizeof uid);
  return *this;
}

NftRule& NftRule::connection_new() {
  match_connection(rule_.get(), NFT_CT_STATE, NF_CT_STATE_BIT(IP_CT_NEW));
  return *this;
}

NftRule& NftRule::connection_established() {
  match_connection(rule_.get(), NFT_CT_STATE, NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED));
  return *this;
}

NftRule& NftRule::connection_answered() {
  match_connection(rule_.get(), NFT_CT_STATE, NF_CT_STATE_BIT(IP_CT_ESTABLISHED));
  return *this;
}

NftRule& NftRule::connection_related() {
  match_connection(rule_.get(), NFT_CT_STATE, NF_CT_STATE_BIT(IP_CT_RELATED));
  return *this;
}

NftRule& NftRule::connection_translated() {
  match_connection(rule_.get(), NFT_CT_STATUS, IPS_DST_NAT);
  return *this;
}

NftRule& NftRule::connection_unconfirmed() {
  match_connection(rule_.get(), NFT_CT_STATUS, IPS_CONFIRMED, false);
  return *this;
}

NftRule& NftRule::connection_reply() {
  const std::uint8_t reply = IP_CT_DIR_REPLY;
  Expression("ct")
      .number(NFTNL_EXPR_CT_KEY, NFT_CT_DIRECTION)
      .number(NFTNL_EXPR_CT_DREG, kRegister)
      .add_to(rule_.get());
  compare(rule_.get(), &reply, sizeof reply);
  return *this;
}

NftRule& NftRule::connection_invalid() {
  match_connection(rule_.get(), NFT_CT_STATE, NF_CT_STATE_INVALID_BIT);
  return *this;
}

NftRule& NftRule::in_set(const std::string& set, const std::vector<NftField>& key, bool in) {
  load_key(rule_.get(), key);
  Expression lookup("lookup");
  lookup.number(NFTNL_EXPR_LOOKUP_SREG, kRegister).text(NFTNL_EXPR_LOOKUP_SET, set);
  if (!in) lookup.number(NFTNL_EXPR_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
  lookup.add_to(rule_.get());
  return *this;
}

NftRule& NftRule::network_in_set(const std::string& set, NftDestinationNetwork network, bool with_port) {
  nftnl_rule* rule = rule_.get();
  load_payload(rule, NFT_PAYLOAD_NETWORK_HEADER, kSourceOffset, 4, kRegister);
  load_payload(rule, NFT_PAYLOAD_NETWORK_HEADER, kDestinationOffset, 4, kRegister + 1);
  if (network.length < 32) mask(rule, network_mask(network.length), kRegister + 1);
  const std::uint32_t length = network.length;
  put_constant(rule, &length, sizeof length, kRegister + 2);
  if (with_port) load_payload(rule, NFT_PAYLOAD_TRANSPORT_HEADER, kPortOffset, 2, kRegister + 3);
  Expression("lookup").number(NFTNL_EXPR_LOOKUP_SREG, kRegister).text(NFTNL_EXPR_LOOKUP_SET, set).add_to(rule);
  return *this;
}

NftRule& NftRule::in_set_by_turns(const std::string& set, std::uint32_t count) {
  Expression("numgen")
      .number(NFTNL_EXPR_NG_DREG, kRegister)
      .number(NFTNL_EXPR_NG_MODULUS, count)
      .number(NFTNL_EXPR_NG_TYPE, NFT_NG_INCREMENTAL)
      .add_to(rule_.get());
  Expression("lookup").number(NFTNL_EXPR_LOOKUP_SREG, kRegister).text(NFTNL_EXPR_LOOKUP_SET, set).add_to(rule_.get());
  return *this;
}

NftRule& NftRule::in_set_by_source(const std::string& set, std::uint32_t count) {
  load_key(rule_.get(), {NftField::Source});
  Expression("hash")
      .number(NFTNL_EXPR_HASH_SREG, kRegister)
      .number(NFTNL_EXPR_HASH_DREG, kRegister)
      .number(NFTNL_EXPR_HASH_LEN, sizeof(std::uint32_t))
      .number(NFTNL_EXPR_HASH_MODULUS, count)
      .number(NFTNL_EXPR_HASH_TYPE, NFT_HASH_JENKINS)
      .add_to(rule_.get());
  Expression("lookup").number(NFTNL_EXPR_LOOKUP_SREG, kRegister).text(NFTNL_EXPR_LOOKUP_SET, set).add_to(rule_.get());
  return *this;
}

NftRule& NftRule::beyond(const NftMeter& meter) {
  nftnl_rule_add_expr(rule_.get(), make_meter(meter));
  return *this;
}

NftRule& NftRule::accept() {
  verdict(rule_.get(), NF_ACCEPT);
  return *this;
}

NftRule& NftRule::drop() {
  verdict(rule_.get(), NF_DROP);
  return *this;
}

NftRule& NftRule::reset() {
  Expression("reject").number(NFTNL_EXPR_REJECT_TYPE, NFT_REJECT_TCP_RST).add_to(rule_.get());
  return *this;
}

NftRule& NftRule::unreachable() {
  answer_with_icmp(rule_.get(), NFT_REJECT_ICMPX_PORT_UNREACH);
  return *this;
}

NftRule& NftRule::prohibited() {
  answer_with_icmp(rule_.get(), NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
  return *this;
}

NftRule& NftRule::leave_chain() {
  verdict(rule_.get(), NFT_RETURN);
  return *this;
}

NftRule& NftRule::jump(const std::string& chain) {
  Expression("immediate")
      .number(NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT)
      .number(NFTNL_EXPR_IMM_VERDICT, static_cast<std::uint32_t>(NFT_JUMP))
      .text(NFTNL_EXPR_IMM_CHAIN, chain)
      .add_to(rule_.get());
  return *this;
}

NftRule& NftRule::masquerade() {
  Expression("masq").add_to(rule_.get());
  return *this;
}

NftRule& NftRule::translate_source(std::uint32_t address) {
  const std::uint32_t wanted = htonl(address);
  put_constant(rule_.get(), &wanted, sizeof wanted, kRegister);
  Expression("nat")
      .number(NFTNL_EXPR_NAT_TYPE, NFT_NAT_SNAT)
      .number(NFTNL_EXPR_NAT_FAMILY, NFPROTO_IPV4)
      .number(NFTNL_EXPR_NAT_REG_ADDR_MIN, kRegister)
      .add_to(rule_.get());
  return *this;
}

NftRule& NftRule::translate_destination(const std::string& map, const std::vector<NftField>& key) {
  load_key(rule_.get(), key);
  Expression("lookup")
      .number(NFTNL_EXPR_LOOKUP_SREG, kRegister)
      .number(NFTNL_EXPR_LOOKUP_DREG, kRegister)
      .text(NFTNL_EXPR_LOOKUP_SET, map)
      .add_to(rule_.get());
  translate_to_registers(rule_.get());
  return *this;
}

NftRule& NftRule::translate_destination(std::uint32_t address, std::uint16_t port) {
  const std::uint32_t wanted = htonl(address);
  const std::uint16_t wanted_port = htons(port);
  put_constant(rule_.get(), &wanted, sizeof wanted, kRegister);
  put_constant(rule_.get(), &wanted_port, sizeof wanted_port, kRegister + 1);
  translate_to_registers(rule_.get());
  return *this;
}

}  // namespace osb::kernel
