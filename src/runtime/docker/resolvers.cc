#include "runtime/docker/resolvers.h"

#include "base/ip_address.h"
#include "sys/text_file.h"

namespace osb::runtime {
namespace {

constexpr std::size_t kMostResolvers = 3;

}  // namespace

std::vector<std::string> usable_resolvers(std::string_view text) {
  constexpr std::string_view kKeyword = "nameserver";
  std::vector<std::string> out;
  while (!text.empty() && out.size() < kMostResolvers) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.starts_with(kKeyword)) continue;
    line.remove_prefix(kKeyword.size());
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == 0 || first == std::string_view::npos) continue;
    line = line.substr(first, line.find_first_of(" \t\r#;", first) - first);
    const auto address = parse_ip_address(line);
    if (!address) continue;
    const bool loopback = address->v6 ? address->bytes == parse_ip_address("::1")->bytes : address->bytes[0] == 127;
    if (!loopback) out.emplace_back(line);
  }
  return out;
}

std::vector<std::string> resolvers_of_this_machine() {
  for (const char* path : {"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"}) {
    if (auto found = usable_resolvers(sys::read_text(path).value_or("")); !found.empty()) return found;
  }
  return {};
}

}  // namespace osb::runtime
