#include "cli/local/service_network.h"

#include <arpa/inet.h>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/local/service_record.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClaims = "/run/opensandbox-local";
constexpr std::uint32_t kFirstSubnet = 0x0a5b0000;  // 10.91.0.0
constexpr unsigned kSubnetBits = 16;                // 65,536 addresses each
constexpr unsigned kIdBits = 27;                    // ids of 2,048 sandboxes each
constexpr std::uint32_t kSubnetMask = ~std::uint32_t{0} << kSubnetBits;

std::uint32_t base_of(unsigned network) { return kFirstSubnet + (network << kSubnetBits); }

std::string dotted(std::uint32_t address) {
  char text[INET_ADDRSTRLEN] = {};
  const in_addr in{htonl(address)};
  (void)::inet_ntop(AF_INET, &in, text, sizeof text);
  return text;
}

fs::path claim_file(unsigned network) { return fs::path(kClaims) / std::to_string(network); }

// Held while claims are looked at and changed.
Result<UniqueFd> lock_claims() {
  if (::mkdir(kClaims, 0700) != 0 && errno != EEXIST) return sys::from_errno(std::string("make ") + kClaims, errno);
  UniqueFd fd(::open(kClaims, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.get() < 0) return sys::from_errno(std::string("open ") + kClaims, errno);
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return sys::from_errno(std::string("lock ") + kClaims, errno);
  }
  return fd;
}

// The directory of another service that has this number. Empty: none has.
std::string claimed_by_other(const fs::path& directory, unsigned network) {
  const auto text = sys::read_text(claim_file(network));
  if (!text || text->empty() || *text == directory.string()) return {};
  const auto record = read_record(*text);
  return record && *record && (*record)->network == network ? *text : std::string();
}

}  // namespace

std::string subnet_of(unsigned network) { return dotted(base_of(network)) + "/" + std::to_string(32 - kSubnetBits); }

std::string gateway_address_of(unsigned network) { return dotted(base_of(network) + 1); }

std::uint32_t first_id_of(unsigned network) { return (std::uint32_t{1} << 30) + (network << kIdBits); }

// The last id before the range: of the 2,048th sandbox of the service before, which is far away.
std::uint32_t server_id_of(unsigned network) { return first_id_of(network) - 1; }

std::string route_in_the_way(const std::string& routes, unsigned network, const std::string& interface_prefix) {
  constexpr unsigned kRejects = 0x200;  // RTF_REJECT: leads nowhere
  std::string found;
  sys::for_each_line(routes, [&](std::string_view line) {
    char name[32] = {};
    unsigned destination = 0, gateway = 0, flags = 0, mask = 0;
    // Iface Destination Gateway Flags RefCnt Use Metric Mask ..; addresses in network byte order
    if (std::sscanf(std::string(line).c_str(), "%31s %x %x %x %*d %*d %*d %x", name, &destination, &gateway, &flags,
                    &mask) != 5) {
      return;
    }
    const std::uint32_t there = ntohl(destination), there_mask = ntohl(mask);
    const int prefix = std::popcount(there_mask);
    // Default routes, also those that VPNs split in two halves, give way to more exact ones. lo leads nowhere: that is
    // what a service leaves behind whose files were deleted by hand.
    if (prefix <= 1 || (flags & kRejects) != 0 || std::string_view(name).starts_with(interface_prefix)) return;
    if (std::string_view(name) == "lo") return;
    const std::uint32_t common = there_mask & kSubnetMask;
    if ((there & common) != (base_of(network) & common)) return;
    found = std::string(name) + " (" + dotted(there) + "/" + std::to_string(prefix) + ")";
  });
  return found;
}

Result<void> claim_network(const fs::path& directory, unsigned wanted, bool fixed, const std::string& interface_prefix,
                           const std::function<Result<void>(unsigned)>& record) {
  const auto lock = lock_claims();
  if (!lock) return Failure(lock.error());
  const std::string routes = sys::read_text("/proc/net/route").value_or("");
  std::string why;
  for (unsigned step = 0; step < kServiceNetworks; ++step) {
    const unsigned network = (wanted + step) % kServiceNetworks;
    if (!fixed || step > 0) {
      const std::string other = claimed_by_other(directory, network);
      const std::string route = route_in_the_way(routes, network, interface_prefix);
      if (!other.empty() || !route.empty()) {
        why += "\n  " + subnet_of(network) + ": " + (other.empty() ? route : "the service in " + other);
        continue;
      }
    }
    const std::string file = claim_file(network);
    const UniqueFd out(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    const std::string text = directory.string();
    if (out.get() < 0 || ::write(out.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      return sys::from_errno("write " + file, errno);
    }
    return record(network);
  }
  return fail(Code::Exhausted, "this host has no free addresses for one more service:" + why);
}

bool release_network(const fs::path& directory, unsigned network) {
  const auto lock = lock_claims();
  if (!lock) return false;
  const auto text = sys::read_text(claim_file(network));
  return text && *text == directory.string() && ::unlink(claim_file(network).c_str()) == 0;
}

}  // namespace osb::cli
