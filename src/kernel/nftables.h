#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernel/netlink.h"

struct nftnl_rule;

// nftables by netlink transactions, without the nft program. Tables are of the inet family; addresses are IPv4 in host
// byte order.
namespace osb::kernel {

// The fields of a packet that rules and sets compare.
enum class NftField : std::uint8_t { InputInterface, Source, Destination, Protocol, DestinationPort };

// The value of some fields one after the other, as a key or as data of an element.
class NftValue {
 public:
  NftValue& interface(std::string_view name);
  NftValue& address(std::uint32_t address);
  NftValue& protocol(std::uint8_t number);
  NftValue& port(std::uint16_t port);

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

struct NftElement {
  NftValue key;
  NftValue data = {};                  // maps only
  std::optional<NftMeter> meter = {};  // instead of the set's own
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
  NftRule& icmp();
  NftRule& icmp_type(std::uint8_t type);
  NftRule& connection_new();          // no answer has been seen yet
  NftRule& connection_established();  // or related to one that is
  NftRule& connection_answered();     // the same without related ones
  NftRule& connection_related();
  NftRule& connection_translated();   // to another destination, by a dnat rule
  NftRule& connection_unconfirmed();  // this packet begins it, and has not passed all chains yet
  NftRule& in_set(const std::string& set, const std::vector<NftField>& key, bool in = true);

  NftRule& accept();
  NftRule& drop();
  // Drop the packet and answer its sender. Not for packets that leave the host again (NF_INET_POST_ROUTING).
  NftRule& reset();        // with a TCP reset; comes after tcp()
  NftRule& unreachable();  // with an ICMP "port unreachable"
  NftRule& prohibited();   // with an ICMP "administratively prohibited"
  NftRule& leave_chain();
  NftRule& masquerade();
  NftRule& translate_source(std::uint32_t address);
  // Looks the key up in a map of {address, port}; the rule ends where nothing is found.
  NftRule& translate_destination(const std::string& map, const std::vector<NftField>& key);

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
  void add_set(const std::string& name, const std::vector<NftField>& key, const std::optional<NftMeter>& meter = {});
  void add_map(const std::string& name, const std::vector<NftField>& key);  // to {address, port}
  void add_rule(const std::string& chain, NftRule rule);
  void add_elements(const std::string& set, const std::vector<NftElement>& elements);
  void delete_elements(const std::string& set, const std::vector<NftElement>& elements);  // must exist

  bool empty() const { return changes_ == 0; }
  Result<void> commit(NetlinkSocket& netfilter);  // a NETLINK_NETFILTER socket

 private:
  nlmsghdr* begin(int message, std::uint16_t flags, std::string what, std::size_t room = 4096);
  void put_set(const std::string& name, const std::vector<NftField>& key, bool map,
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

}  // namespace osb::kernel
