#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace osb::sandboxd {

enum class Protocol : std::uint8_t { Tcp = 6, Udp = 17 };  // the numbers of the IP header

// An IPv4 network in host byte order.
struct Subnet {
  std::uint32_t base = 0;  // bits beyond the prefix are zero
  unsigned prefix_length = 0;

  std::uint32_t mask() const { return prefix_length == 0 ? 0 : ~std::uint32_t{0} << (32 - prefix_length); }
  bool contains(std::uint32_t address) const { return (address & mask()) == base; }
  bool operator==(const Subnet&) const = default;
};

// "10.90.0.0/16". Bits beyond the prefix are an error: they are usually a typing mistake.
Result<Subnet> parse_subnet(std::string_view text);
Result<std::uint32_t> parse_ipv4(std::string_view text);  // host byte order
std::string format_ipv4(std::uint32_t address);
std::string format_subnet(const Subnet& subnet);

// A service of the host that sandboxes may reach at any of the host's addresses (a name server, a package cache).
struct HostService {
  Protocol protocol = Protocol::Tcp;
  std::uint16_t port = 0;
};

// One index stands for everything a sandbox's network slot consists of: address, interface name, id range. The numbers
// are computed, never stored, so two records cannot disagree.
struct NetworkConfig {
  Subnet subnet{.base = 0x0a5a0000, .prefix_length = 16};  // 10.90.0.0/16
  unsigned mtu = 0;                                        // 0: of the default route's interface, else 1500
  std::uint32_t first_id = 16 * 65536;                     // of slot 0's range of 65,536 user and group ids
  unsigned ready_slots = 8;                                // kept built, refilled in the background
  // Slots that had traffic wait until so many can be used again together: the kernel's table of connections has to be
  // walked for it, which costs more than making a new slot.
  unsigned recycle_batch = 16;
  std::chrono::milliseconds forget_after{1000};  // or until the first of them has waited so long
  // Entries of a sandbox in the kernel's table of connections, which all of the host share. 0: no limit. Closed TCP
  // connections stay in the table for two minutes and do not count; new ones are limited to a fortieth of this per
  // second, with bursts of this many. Together a sandbox has at most five times as many entries.
  unsigned max_connections = 4096;
  // The same for all sandboxes together, so that entries are left for the host. -1: a share of the kernel's table
  // (kernel::connections_of_all()). 0: no limit.
  std::int64_t total_connections = -1;
  // Both must differ between daemons on one host, and no prefix may begin another one.
  std::string table = "opensandbox";
  std::string interface_prefix = "osb-";
  // Networks that no sandbox reaches, besides metadata_networks() and private_networks(). `blocked` beats the three
  // fields after it. The sandboxes' name servers are reached anywhere, on port 53.
  std::vector<Subnet> blocked;
  std::vector<Subnet> allowed_metadata;    // parts of metadata_networks() that sandboxes reach
  std::vector<Subnet> allowed_networks;    // parts of private_networks() that sandboxes reach
  bool allow_private_networks = false;     // all of them
  std::vector<HostService> host_services;  // none: the host is closed
  bool answer_ping = true;                 // ICMP echo to the gateway
  // Of the gateway's address, UDP and TCP: questions for names of sandboxes with a policy are led there. 0: they are
  // refused.
  std::uint16_t egress_port = 0;
  // Of the same address, TCP: connections to ports 80 and 443 of sandboxes that are intercepted are led there. 0: they
  // are refused.
  std::uint16_t intercept_port = 0;
  // Name servers of the egress process on this host, or on ports other than 53: address and port.
  std::vector<std::pair<std::uint32_t, std::uint16_t>> egress_resolvers;
  // Where it sends metrics and denied names, by TCP. Without an address: the port of every address.
  std::vector<std::pair<std::optional<std::uint32_t>, std::uint16_t>> egress_reports;
  std::vector<std::string> dns;  // for resolv.conf where the host has only loopback name servers

  std::uint32_t gateway() const { return subnet.base + 1; }
  std::uint32_t address(unsigned index) const { return subnet.base + 2 + index; }
  std::uint32_t id_base(unsigned index) const { return first_id + index * 65536; }
  // 65,536 ids of files that sandboxes leave in directories of the host. No process has them. The range between them
  // and the sandboxes' holds users of services (osb up).
  std::uint32_t file_ids() const { return first_id - 2 * 65536; }
  // User and group of the egress process: the last of the ids for services, below the sandboxes'.
  std::uint32_t egress_id() const { return first_id - 1; }
  std::string interface(unsigned index) const { return interface_prefix + std::to_string(index); }
  // How many slots there can be: limited by addresses and by ids.
  unsigned capacity() const;
};

// Link-local addresses, and the addresses where clouds serve a machine's credentials and configuration to every client.
std::span<const Subnet> metadata_networks();
// Networks that are not of the internet: the operator's own.
std::span<const Subnet> private_networks();

// Names the field and what to do about it.
Result<void> validate(const NetworkConfig& config);

}  // namespace osb::sandboxd
