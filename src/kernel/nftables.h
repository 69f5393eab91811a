#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernel/netlink.h"

struct nftnl_expr;
struct nftnl_rule;

// nftables by netlink transactions, without the nft program. Tables are of the inet family; addresses are IPv4 in host
// byte order.
namespace osb::kernel {

// The fields of a packet that rules and sets compare.
enum class NftField : std::uint8_t { InputInterface, Source, Destination, Protocol, DestinationPort, Number };

// The network of the given length around the packet's destination, as two fields of a key: the address with all bits
// behind the length zero, and the length as a Number.
struct NftDestinationNetwork {
  unsigned length = 32;
};

// The value of some fields one after the other, as a key or as data of an element.
class NftValue {
 public:
  NftValue& interface(std::string_view name);
  NftValue& address(std::uint32_t address);
  NftValue& protocol(std::uint8_t number);
  NftValue& port(std::uint16_t port);
  NftValue& number(std::uint32_t number);

  const std::vector<std::uint8_t>& bytes() const { return bytes_; }
  bool operator==(const NftValue&) const = default;

 private:
  std::vector<std::uint8_t> bytes_;  // each field begins at a multiple of four, as in the kernel's registers
};

// Each element of a set can measure the packets that look it up. Then only packets beyond `most` find it.
struct NftMeter {
  enum class Of : std::uint8_t { Connections, PacketsPerSecond, BytesPerSecond };
  Of of = Of::Connections;
  std::uint64_t most = 0;
  std::uint32_t burst = 0;  // packets at once; or bytes at once, besides those of a second
};

// The caller gives it to a set, an element or a rule, which then owns it.
nftnl_expr* make_meter(const NftMeter& meter);

struct NftElement {
  NftValue key;
  std::optional<NftValue> last = {};   // interval sets only: the element is everything from `key` to this
  NftValue data = {};                  // maps only
  std::optional<NftMeter> meter = {};  // instead of the set's own
  // Timed sets only: the kernel removes the element after this time. Adding an element that exists already leaves its
  // time as it is on kernels before 6.12: delete it first.
  std::chrono::milliseconds lifetime{0};
};

// Matches from left to right; the verdict comes last.
class NftRule {
 public:
  NftRule();
  NftRule(NftRule&&) noexcept;
  ~NftRule();

  NftRule& input_interface(std::string_view prefix, bool equal = true);
  NftRule& output_interface(std::string_view prefix, bool equal = true);
  NftRule& ipv4();  // comes before everything that looks into the packet
  NftRule& ipv6();
  NftRule& source(std::uint32_t network, unsigned prefix_length, bool equal = true);
  NftRule& destination(std::uint32_t network, unsigned prefix_length, bool equal = true);
  NftRule& destination_type(std::uint8_t type);  // by the host's routes: RTN_LOCAL is an address of this host
  NftRule& tcp();
  NftRule& udp();
  NftRule& destination_port(std::uint16_t port);  // comes after tcp() or udp()
  NftRule& source_port(std::uint16_t port);       // the same
  NftRule& tcp_flags(std::uint8_t flags);         // exactly these (TH_SYN); comes after tcp()
  NftRule& tcp_refusal();                         // the answer of a closed port; comes after tcp()
  NftRule& icmp();
  NftRule& icmp_type(std::uint8_t type);
  NftRule& packet_mark(std::uint32_t mark);
  NftRule& socket_owner(std::uint32_t uid);  // the user who opened the sending socket; in the output hook
  NftRule& connection_new();                 // no answer has been seen yet
  NftRule& connection_established();         // or related to one that is
  NftRule& connection_answered();            // the same without related ones
  NftRule& connection_related();
  NftRule& connection_translated();   // to another destination, by a dnat rule
  NftRule& connection_unconfirmed();  // this packet begins it, and has not passed all chains yet
  NftRule& connection_reply();        // sent by the side that did not begin it
  NftRule& connection_invalid();      // the packet belongs to no connection and begins none
  NftRule& in_set(const std::string& set, const std::vector<NftField>& key, bool in = true);
  // The key is {source address, network}, or {source address, network, destination port}: add these to an element by
  // address().address().number(), and port().
  NftRule& network_in_set(const std::string& set, NftDestinationNetwork network, bool with_port);
  // Packets take turns: the first looks up number 0, the next one number 1, up to `count`, then 0 again.
  NftRule& in_set_by_turns(const std::string& set, std::uint32_t count);
  // Each source address has a number below `count`, the same for all packets of this rule: a hash with a random seed.
  NftRule& in_set_by_source(const std::string& set, std::uint32_t count);
  NftRule& beyond(const NftMeter& meter);  // of all packets that come so far in this rule

  NftRule& accept();
  NftRule& drop();
  // Drop the packet and answer its sender. Not for packets that leave the host again (NF_INET_POST_ROUTING).
  NftRule& reset();        // with a TCP reset; comes after tcp()
  NftRule& unreachable();  // with an ICMP "port unreachable"
  NftRule& prohibited();   // with an ICMP "administratively prohibited"
  NftRule& leave_chain();
  NftRule& jump(const std::string& chain);  // and come back if no rule there has a verdict
  NftRule& masquerade();
  NftRule& translate_source(std::uint32_t address);
  // Looks the key up in a map of {address, port}; the rule ends where nothing is found.
  NftRule& translate_destination(const std::string& map, const std::vector<NftField>& key);
  NftRule& translate_destination(std::uint32_t address, std::uint16_t port);

  // Takes it apart: for NftBatch.
  nftnl_rule* release() { return rule_.release(); }

 private:
  struct Free {
    void operator()(nftnl_rule* rule) const;
  };
  std::unique_ptr<nftnl_rule, Free> rule_;
};

struct NftChain {
  std::string name;
  const char* type = "filter";  // or "nat"
  std::uint32_t hook = 0;       // NF_INET_*
  std::int32_t priority = 0;    // NF_IP_PRI_*
  bool drop_by_default = false;
};

// One transaction on one table: all of it happens or nothing.
class NftBatch {
 public:
  explicit NftBatch(std::string table);

  void add_table();
  void delete_table();  // must exist: add it before
  void add_chain(const NftChain& chain);
  void add_chain(const std::string& name);  // without a hook: rules jump there
  void add_set(const std::string& name, const std::vector<NftField>& key, const std::optional<NftMeter>& meter = {});
  void add_timed_set(const std::string& name, const std::vector<NftField>& key);  // elements have a lifetime
  // Elements are ranges that do not overlap: of one field, or of each of several fields.
  void add_interval_set(const std::string& name, const std::vector<NftField>& key);
  void add_map(const std::string& name, const std::vector<NftField>& key);  // to {address, port}
  void add_rule(const std::string& chain, NftRule rule);
  void add_elements(const std::string& set, const std::vector<NftElement>& elements);
  void delete_elements(const std::string& set, const std::vector<NftElement>& elements);  // must exist

  bool empty() const { return changes_ == 0; }
  Result<void> commit(NetlinkSocket& netfilter);  // a NETLINK_NETFILTER socket

 private:
  nlmsghdr* begin(int message, std::uint16_t flags, std::string what, std::size_t room = 4096);
  void put_set(const std::string& name, const std::vector<NftField>& key, std::uint32_t flags,
               const std::optional<NftMeter>& meter);
  void put_elements(int message, const std::string& set, const std::vector<NftElement>& elements);

  std::string table_;
  NetlinkBatch batch_;
  unsigned changes_ = 0;
  std::uint32_t sets_ = 0;
};

struct NftChainInfo {
  int family = 0;  // NFPROTO_*
  std::string table;
  std::string name;
  std::string type;
  std::optional<std::uint32_t> hook;  // base chains only
  bool drops_by_default = false;
};
Result<std::vector<NftChainInfo>> list_chains(NetlinkSocket& netfilter);

// Keys of a set or map of an inet table. Code::NotFound if there is none.
Result<std::vector<std::vector<std::uint8_t>>> list_elements(NetlinkSocket& netfilter, const std::string& table,
                                                             const std::string& set);

struct NftTimedKey {
  std::vector<std::uint8_t> key;
  std::chrono::milliseconds left{0};
};
// Elements of a timed set, with the time that each has left. Code::NotFound if there is no such set.
Result<std::vector<NftTimedKey>> list_timed_elements(NetlinkSocket& netfilter, const std::string& table,
                                                     const std::string& set);

}  // namespace osb::kernel
