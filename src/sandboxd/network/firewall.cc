#include "sandboxd/network/firewall.h"

#include <algorithm>
#include <linux/membarrier.h>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <set>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "kernel/connection_limit.h"
#include "kernel/netlink.h"
#include "kernel/netlink_route.h"
#include "kernel/nftables.h"
#include "sandboxd/network/firewall_rules.h"
#include "sandboxd/network/host_network.h"
#include "sys/syscall.h"

namespace osb::sandboxd {
namespace {

struct HeldPort {
  UniqueFd socket;
  std::uint16_t number = 0;
};

// A socket that is bound and nothing more: connections never get there, and no other program can bind the port. Without
// SO_REUSEADDR, because with it a server that has it too could still take the port.
Result<HeldPort> hold_port(Protocol protocol, std::uint16_t wanted) {
  const bool tcp = protocol == Protocol::Tcp;
  const std::string what = fmt::format("publish host port {}/{}", wanted, tcp ? "tcp" : "udp");
  UniqueFd fd(::socket(AF_INET, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0));
  if (!fd) return sys::from_errno(what, errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(wanted);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    if (errno == EADDRINUSE) return fail(Code::Conflict, what + ": something on this host uses it already");
    return sys::from_errno(what, errno);
  }
  socklen_t size = sizeof address;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) < 0) return sys::from_errno(what, errno);
  return HeldPort{.socket = std::move(fd), .number = ntohs(address.sin_port)};
}

// The answers to an expression that the kernel does not have.
bool lacks_feature(const Error& error) { return error.sys_errno == ENOENT || error.sys_errno == EOPNOTSUPP; }

}  // namespace

class Firewall::Impl {
 public:
  Impl(const NetworkConfig& config, kernel::NetlinkSocket route, kernel::NetlinkSocket netfilter,
       kernel::NetlinkSocket connections)
      : config_(config),
        route_(std::move(route)),
        netfilter_(std::move(netfilter)),
        policies_(config_),
        connections_(std::move(connections)) {}

  Result<void> install() {
    const std::lock_guard lock(mutex_);
    if (const auto done = prepare_host(config_, route_); !done) return done;
    derive_total();
    if (!installed_) {
      // Of an earlier daemon's table; the first one of a host has none.
      if (const auto opened = kernel::list_timed_elements(netfilter_, config_.table, kOpened))
        policies_.adopt(*opened, system_clock().steady_now());
      if (const auto judged = kernel::list_elements(netfilter_, config_.table, kJudged))
        policies_.adopt_judged(*judged);
    }
    if (const auto done = build(); !done) return done;
    installed_ = true;
    return {};
  }

  Result<void> remove() {
    const std::lock_guard lock(mutex_);
    for (const unsigned slot : members_) {
      // Without the rules the flag would open the host's loopback.
      if (has_ports(slot)) static_cast<void>(route_localnet(slot, false));
    }
    kernel::NftBatch batch(config_.table);
    batch.add_table();
    batch.delete_table();
    if (const auto done = batch.commit(netfilter_); !done) return done;
    installed_ = false;
    return restore_host(config_, route_);
  }

  Result<void> admit(unsigned slot) {
    const std::lock_guard lock(mutex_);
    if (!members_.insert(slot).second) return {};
    kernel::NftBatch batch(config_.table);
    admit_slots(batch, config_, {slot});
    const auto done = apply(batch);
    if (!done) members_.erase(slot);
    return done;
  }

  Result<void> expel(unsigned slot) {
    const std::lock_guard lock(mutex_);
    if (members_.erase(slot) == 0) return {};
    kernel::NftBatch batch(config_.table);
    expel_slot(batch, config_, slot);
    policies_.change(batch, slot, {}, system_clock().steady_now());
    if (send_limits_.erase(slot) != 0) batch.delete_elements(kSendLimits, {address_element(config_, slot)});
    if (refused_.erase(slot) != 0) batch.delete_elements(kRefused, {address_element(config_, slot)});
    std::erase_if(ports_, [&](const auto& item) {
      if (item.second.port.slot != slot) return false;
      remove_port(batch, item.second.port);
      return true;
    });
    return apply(batch);
  }

  Result<void> refuse(unsigned slot) {
    const std::lock_guard lock(mutex_);
    if (!members_.contains(slot) || !refused_.insert(slot).second) return {};
    kernel::NftBatch batch(config_.table);
    batch.add_elements(kRefused, {address_element(config_, slot)});
    const auto done = apply(batch);
    if (!done) refused_.erase(slot);
    return done;
  }

  Result<void> accept(unsigned slot) {
    const std::lock_guard lock(mutex_);
    if (refused_.erase(slot) == 0) return {};
    kernel::NftBatch batch(config_.table);
    batch.delete_elements(kRefused, {address_element(config_, slot)});
    const auto done = apply(batch);
    if (!done) refused_.insert(slot);
    return done;
  }

  Result<void> limit_sending(unsigned slot, std::uint64_t bytes_per_second) {
    const std::lock_guard lock(mutex_);
    const auto before = send_limits_.find(slot);
    if (before == send_limits_.end() && bytes_per_second == 0) return {};
    kernel::NftBatch batch(config_.table);
    if (before != send_limits_.end()) {
      batch.delete_elements(kSendLimits, {address_element(config_, slot)});
      send_limits_.erase(before);
    }
    if (bytes_per_second != 0) {
      send_limits_[slot] = bytes_per_second;
      batch.add_elements(kSendLimits, {limited_element(config_, slot, bytes_per_second)});
    }
    const auto done = apply(batch);
    if (!done) send_limits_.erase(slot);
    return done;
  }

  Result<std::uint16_t> publish(PublishedPort port) {
    const std::lock_guard lock(mutex_);
    if (port.port == 0) return fail(Code::InvalidRequest, "publish: the sandbox's port must not be 0");
    if (!members_.contains(port.slot))
      return fail(Code::NotFound, fmt::format("publish: slot {} has no network", port.slot));
    auto held = hold_port(port.protocol, port.host_port);
    if (!held) return Failure(held.error());
    port.host_port = held->number;
    kernel::NftBatch batch(config_.table);
    put_port(batch, port);
    const Key key{port.protocol, port.host_port};
    ports_.emplace(key, Entry{.port = port, .socket = std::move(held->socket)});
    auto done = apply(batch);
    // After the rules, which must be there first: see the class.
    if (done && installed_) done = route_localnet(port.slot, true);
    if (!done) {
      static_cast<void>(
          unpublish(port.slot, [&](const PublishedPort& p) { return Key{p.protocol, p.host_port} == key; }));
      return Failure(done.error());
    }
    return port.host_port;
  }

  Result<void> unpublish(Protocol protocol, std::uint16_t host_port) {
    const std::lock_guard lock(mutex_);
    const auto entry = ports_.find({protocol, host_port});
    if (entry == ports_.end())
      return fail(Code::NotFound, fmt::format("unpublish: host port {} is not published", host_port));
    return unpublish(entry->second.port.slot, [&](const PublishedPort& port) {
      return port.protocol == protocol && port.host_port == host_port;
    });
  }

  Result<void> unpublish_all(unsigned slot) {
    const std::lock_guard lock(mutex_);
    if (!has_ports(slot)) return {};
    return unpublish(slot, [](const PublishedPort&) { return true; });
  }

  Result<void> allow_resolvers(const std::vector<std::uint32_t>& addresses) {
    {
      // Every create asks, so it must not wait for a transaction.
      const std::lock_guard lock(resolvers_mutex_);
      if (std::ranges::all_of(addresses, [&](std::uint32_t each) { return resolvers_.contains(each); })) return {};
    }
    const std::lock_guard lock(mutex_);
    std::set<std::uint32_t> before = resolvers_;
    kernel::NftBatch batch(config_.table);
    for (const std::uint32_t address : addresses) batch.add_elements(kResolvers, resolver_elements(address));
    std::set<std::uint32_t> now = before;
    now.insert(addresses.begin(), addresses.end());
    set_resolvers(std::move(now));
    const auto done = apply(batch);
    if (done) return done;
    set_resolvers(std::move(before));
    return with_context("open port 53 of the name servers", done.error());
  }

  Result<void> set_policy(unsigned slot, PolicyChange wanted) {
    return change_policies(slot, [&](kernel::NftBatch& batch) {
      policies_.change(batch, slot, std::move(wanted), system_clock().steady_now());
    });
  }

  Result<void> open_addresses(unsigned slot, const std::vector<OpenedAddress>& addresses) {
    return change_policies(
        slot, [&](kernel::NftBatch& batch) { policies_.open(batch, slot, addresses, system_clock().steady_now()); });
  }

  std::vector<std::uint32_t> opened(unsigned slot) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint32_t> out;
    const auto now = system_clock().steady_now();
    for (const auto& [address, end] : policies_.get(slot).opened) {
      if (end > now) out.push_back(address);
    }
    return out;
  }

  Result<unsigned> end_revoked_connections() {
    const std::lock_guard one(connections_mutex_);
    const auto judged = [&] {
      const std::lock_guard lock(mutex_);
      return policies_.judged();
    }();
    if (judged.empty()) return 0;
    // Waits until packets that an older policy has let through are in the table of connections.
    ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
    const auto ended = kernel::forget_flows(connections_, [&](const kernel::TrackedFlow& flow) {
      const std::lock_guard lock(mutex_);
      return !policies_.permits(flow, system_clock().steady_now());
    });
    if (!ended) return ended;
    const std::lock_guard lock(mutex_);
    kernel::NftBatch batch(config_.table);
    policies_.end_judging(batch, judged);
    if (const auto done = apply(batch); !done) return Failure(done.error());
    return ended;
  }

  std::vector<PublishedPort> published(unsigned slot) const {
    const std::lock_guard lock(mutex_);
    std::vector<PublishedPort> found;
    for (const auto& [key, entry] : ports_) {
      if (entry.port.slot == slot) found.push_back(entry.port);
    }
    return found;
  }

 private:
  using Key = std::pair<Protocol, std::uint16_t>;
  struct Entry {
    PublishedPort port;
    UniqueFd socket;
  };

  void set_resolvers(std::set<std::uint32_t> addresses) {
    const std::lock_guard lock(resolvers_mutex_);
    resolvers_ = std::move(addresses);
  }

  template <typename F>
  Result<void> unpublish(unsigned slot, F chosen) {
    kernel::NftBatch batch(config_.table);
    std::erase_if(ports_, [&](const auto& item) {
      if (item.second.port.slot != slot || !chosen(item.second.port)) return false;
      remove_port(batch, item.second.port);
      return true;
    });
    if (const auto done = apply(batch); !done) return done;
    if (!installed_ || has_ports(slot)) return {};
    const auto done = route_localnet(slot, false);
    // A sandbox that may delete its interface takes the flag with it.
    if (!done && done.error().code != Code::NotFound) return done;
    return {};
  }

  template <typename F>
  Result<void> change_policies(unsigned slot, F change) {
    const std::lock_guard lock(mutex_);
    PolicyNotes::Slot before = policies_.get(slot);
    kernel::NftBatch batch(config_.table);
    change(batch);
    const auto done = apply(batch);
    if (!done) policies_.restore(slot, std::move(before));
    return done;
  }

  // Everything from our notes, in one transaction.
  Result<void> build() {
    kernel::NftBatch batch(config_.table);
    put_table(batch, config_);
    admit_slots(batch, config_, members_);
    std::vector<kernel::NftElement> refused;
    for (const auto& [slot, rate] : send_limits_)
      batch.add_elements(kSendLimits, {limited_element(config_, slot, rate)});
    for (const unsigned slot : refused_) refused.push_back(address_element(config_, slot));
    batch.add_elements(kRefused, refused);
    for (const std::uint32_t address : resolvers_) batch.add_elements(kResolvers, resolver_elements(address));
    policies_.put_all(batch, system_clock().steady_now());
    std::set<unsigned> with_ports;
    for (const auto& [key, entry] : ports_) {
      put_port(batch, entry.port);
      with_ports.insert(entry.port.slot);
    }
    if (const auto done = batch.commit(netfilter_); !done) {
      if (!lacks_feature(done.error())) return done;
      if (config_.total_connections > 0) {
        log_warn("all sandboxes together have no limit of connections: the kernel has no nft_connlimit or nft_numgen",
                 {{"error", done.error().message}});
        config_.total_connections = 0;
        return build();
      }
      if (config_.max_connections == 0) return done;
      log_warn("sandboxes have no limit of connections: the kernel has no nft_connlimit or nft_limit",
               {{"error", done.error().message}});
      config_.max_connections = 0;
      return build();
    }
    for (const unsigned slot : with_ports) {
      if (const auto done = route_localnet(slot, true); !done) return done;
    }
    // Where connection tracking is a module, the table has loaded it.
    if (config_.total_connections < 0 && derive_total()) return build();
    return {};
  }

  // False while the kernel does not track connections.
  bool derive_total() {
    if (config_.total_connections >= 0) return true;
    const auto table = kernel::connection_table();
    if (!table) return false;
    // 0: the kernel sets no limit, and memory is the host's to watch.
    config_.total_connections = *table > 0 ? kernel::connections_of_all(*table) : 0;
    log_info("connections of all sandboxes are limited", {{"total_connections", config_.total_connections}});
    return true;
  }

  // A change that is in our notes already. If an object of it is missing, another program has deleted our table (`nft
  // flush ruleset` does) and sandboxes have no firewall: it is built again.
  Result<void> apply(kernel::NftBatch& batch) {
    if (!installed_) return {};
    const auto done = batch.commit(netfilter_);
    if (done || done.error().code != Code::NotFound) return done;
    log_warn("sandbox firewall was gone, building it again",
             {{"table", config_.table}, {"error", done.error().message}});
    return build();
  }

  bool has_ports(unsigned slot) const {
    return std::ranges::any_of(ports_, [&](const auto& item) { return item.second.port.slot == slot; });
  }

  void put_port(kernel::NftBatch& batch, const PublishedPort& port) const {
    batch.add_elements(kPublished, {port_element(config_, port)});
    if (!port.host_only) batch.add_elements(kPublishedOutside, {port_element(config_, port)});
  }

  void remove_port(kernel::NftBatch& batch, const PublishedPort& port) const {
    batch.delete_elements(kPublished, {port_element(config_, port)});
    if (!port.host_only) batch.delete_elements(kPublishedOutside, {port_element(config_, port)});
  }

  Result<void> route_localnet(unsigned slot, bool on) {
    const auto link = kernel::find_link(route_, config_.interface(slot));
    if (!link) return Failure(link.error());
    kernel::NetlinkBatch batch;
    kernel::change_link(batch, link->index, {.route_localnet = on});
    return route_.run(batch);
  }

  NetworkConfig config_;
  mutable std::mutex mutex_;  // everything below
  kernel::NetlinkSocket route_;
  kernel::NetlinkSocket netfilter_;
  bool installed_ = false;
  std::set<unsigned> members_;
  std::set<unsigned> refused_;                     // some of the members
  std::map<unsigned, std::uint64_t> send_limits_;  // bytes per second
  std::map<Key, Entry> ports_;
  PolicyNotes policies_;
  std::mutex connections_mutex_;  // of its own: a walk takes long
  kernel::NetlinkSocket connections_;
  std::mutex resolvers_mutex_;         // taken after mutex_
  std::set<std::uint32_t> resolvers_;  // written with both
};

Result<std::unique_ptr<Firewall>> Firewall::open(const NetworkConfig& config) {
  if (const auto valid = validate(config); !valid) return Failure(valid.error());
  auto route = kernel::NetlinkSocket::open(NETLINK_ROUTE);
  if (!route) return Failure(route.error());
  auto netfilter = kernel::NetlinkSocket::open(NETLINK_NETFILTER);
  if (!netfilter) return with_context("nftables", netfilter.error());
  auto connections = kernel::NetlinkSocket::open(NETLINK_NETFILTER);
  if (!connections) return with_context("connection tracking", connections.error());
  return std::unique_ptr<Firewall>(
      new Firewall(std::make_unique<Impl>(config, std::move(*route), std::move(*netfilter), std::move(*connections))));
}

Firewall::Firewall(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Firewall::~Firewall() = default;

Result<void> Firewall::install() {
  const auto done = impl_->install();
  if (!done) return with_context("install the sandbox firewall", done.error());
  return {};
}
Result<void> Firewall::remove() { return impl_->remove(); }
Result<void> Firewall::admit(unsigned slot) { return impl_->admit(slot); }
Result<void> Firewall::expel(unsigned slot) { return impl_->expel(slot); }
Result<void> Firewall::refuse(unsigned slot) { return impl_->refuse(slot); }
Result<void> Firewall::accept(unsigned slot) { return impl_->accept(slot); }
Result<void> Firewall::limit_sending(unsigned slot, std::uint64_t bytes_per_second) {
  return impl_->limit_sending(slot, bytes_per_second);
}
Result<std::uint16_t> Firewall::publish(PublishedPort port) { return impl_->publish(port); }
Result<void> Firewall::unpublish(Protocol protocol, std::uint16_t host_port) {
  return impl_->unpublish(protocol, host_port);
}
Result<void> Firewall::unpublish_all(unsigned slot) { return impl_->unpublish_all(slot); }
Result<void> Firewall::allow_resolvers(const std::vector<std::uint32_t>& addresses) {
  return impl_->allow_resolvers(addresses);
}
Result<void> Firewall::set_policy(unsigned slot, PolicyChange change) {
  return impl_->set_policy(slot, std::move(change));
}
Result<void> Firewall::open_addresses(unsigned slot, const std::vector<OpenedAddress>& addresses) {
  return impl_->open_addresses(slot, addresses);
}
std::vector<std::uint32_t> Firewall::opened(unsigned slot) const { return impl_->opened(slot); }
Result<unsigned> Firewall::end_revoked_connections() { return impl_->end_revoked_connections(); }
std::vector<PublishedPort> Firewall::published(unsigned slot) const { return impl_->published(slot); }

}  // namespace osb::sandboxd
