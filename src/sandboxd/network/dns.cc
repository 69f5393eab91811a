#include "sandboxd/network/dns.h"

#include <algorithm>

#include "sandboxd/network/network_config.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

constexpr std::uint32_t kLoopbackNetwork = 127;

struct ResolvConf {
  std::vector<std::string> servers;  // that a sandbox can reach
  std::vector<std::string> others;   // search, domain and options lines
};

std::vector<std::string_view> words(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  std::vector<std::string_view> out;
  for (std::size_t at = line.find_first_not_of(kBlank); at != std::string_view::npos;
       at = line.find_first_not_of(kBlank, at)) {
    const std::size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    out.push_back(line.substr(at, end - at));
    at = end;
  }
  return out;
}

bool reachable(std::string_view server) {
  const auto address = parse_ipv4(server);
  return address && *address >> 24 != kLoopbackNetwork && *address != 0;
}

ResolvConf parse(std::string_view text) {
  ResolvConf conf;
  sys::for_each_line(text, [&](std::string_view line) {
    const auto parts = words(line);
    if (parts.size() < 2) return;
    if (parts[0] == "nameserver" && reachable(parts[1])) conf.servers.emplace_back(parts[1]);
    if (parts[0] != "search" && parts[0] != "domain" && parts[0] != "options") return;
    std::string whole(parts[0]);
    for (std::size_t i = 1; i < parts.size(); ++i) whole.append(" ").append(parts[i]);
    conf.others.push_back(std::move(whole));
  });
  return conf;
}

}  // namespace

SandboxDns sandbox_dns(std::string_view host, std::string_view upstream, const std::vector<std::string>& configured) {
  ResolvConf conf = parse(host);
  if (conf.servers.empty()) {
    ResolvConf second = parse(upstream);
    if (!second.servers.empty()) conf = std::move(second);
  }
  if (conf.servers.empty()) conf.servers = configured;
  SandboxDns out;
  std::string& text = out.resolv_conf;
  if (conf.servers.empty()) text += "# The host has no name server that a sandbox can reach: set network.dns.\n";
  for (const std::string& server : conf.servers) {
    text += "nameserver " + server + "\n";
    if (const auto address = parse_ipv4(server)) out.servers.push_back(*address);
  }
  for (const std::string& line : conf.others) text += line + "\n";
  return out;
}

SandboxDns sandbox_dns(const std::vector<std::string>& configured) {
  const auto host = sys::read_text("/etc/resolv.conf");
  const auto upstream = sys::read_text("/run/systemd/resolve/resolv.conf");
  return sandbox_dns(host ? *host : "", upstream ? *upstream : "", configured);
}

}  // namespace osb::sandboxd
