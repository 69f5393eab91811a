#include "policy/templates/suggest.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/ip_address.h"
#include "base/json_escape.h"
#include "policy/matcher.h"

namespace osb::policy {
namespace {

constexpr std::size_t kNamesForWildcard = 3;

// Suffixes below which strangers get names: a wildcard there would allow everybody's hosts. Suffixes of one label
// ("com") never become wildcards. This is no complete list of public suffixes: an unknown one costs a wildcard that is
// too wide, in a text that a person reads before it is used.
constexpr std::array kShared = std::to_array<std::string_view>({"ac.uk",
                                                                "appspot.com",
                                                                "amazonaws.com",
                                                                "azureedge.net",
                                                                "azurewebsites.net",
                                                                "blogspot.com",
                                                                "cloudapp.azure.com",
                                                                "cloudfront.net",
                                                                "co.in",
                                                                "co.jp",
                                                                "co.kr",
                                                                "co.nz",
                                                                "co.uk",
                                                                "co.za",
                                                                "com.ar",
                                                                "com.au",
                                                                "com.br",
                                                                "com.cn",
                                                                "com.hk",
                                                                "com.mx",
                                                                "com.sg",
                                                                "com.tr",
                                                                "com.tw",
                                                                "edu.cn",
                                                                "firebaseapp.com",
                                                                "fly.dev",
                                                                "github.io",
                                                                "gitlab.io",
                                                                "gov.cn",
                                                                "gov.uk",
                                                                "herokuapp.com",
                                                                "hf.space",
                                                                "in-addr.arpa",
                                                                "ip6.arpa",
                                                                "myshopify.com",
                                                                "ne.jp",
                                                                "net.au",
                                                                "net.cn",
                                                                "netlify.app",
                                                                "ngrok.io",
                                                                "onrender.com",
                                                                "or.jp",
                                                                "org.au",
                                                                "org.cn",
                                                                "org.uk",
                                                                "pages.dev",
                                                                "r2.cloudflarestorage.com",
                                                                "r2.dev",
                                                                "readthedocs.io",
                                                                "run.app",
                                                                "s3.amazonaws.com",
                                                                "storage.googleapis.com",
                                                                "trycloudflare.com",
                                                                "vercel.app",
                                                                "web.app",
                                                                "windows.net",
                                                                "blob.core.windows.net",
                                                                "workers.dev"});

bool may_be_wildcard(std::string_view parent) {
  if (parent.find('.') == std::string_view::npos) return false;
  // s3.eu-west-1.amazonaws.com and the like: buckets of everybody.
  if (parent.ends_with(".amazonaws.com")) return false;
  return std::ranges::find(kShared, parent) == kShared.end();
}

std::string_view parent_of(std::string_view name) {
  const auto dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
}

using Hosts = std::map<std::string, std::uint64_t>;

// The hosts of one capability.
struct Candidate {
  Candidate(std::string_view name_, const Catalogue& catalogue) : name(name_) {
    Policy policy;
    for (const Catalogue::Part& part : catalogue.rules(name_)) policy.egress.push_back(*part.rule);
    width = policy.egress.size();
    matcher.emplace(policy);
  }
  bool covers(const std::string& host) const {
    if (const auto address = parse_ip_address(host)) return matcher->allows(*address) != nullptr;
    return matcher->name(host).allowed();
  }

  std::string name;
  std::size_t width = 0;  // targets that it would open
  std::optional<Matcher> matcher;
};

void take_capabilities(Hosts& left, const Catalogue& catalogue, Suggestion& out) {
  std::vector<std::pair<std::string, std::vector<std::string>>> covered;
  std::map<std::string, std::size_t> width;
  for (const std::string_view name : catalogue.names()) {
    const Candidate candidate(name, catalogue);
    std::vector<std::string> hosts;
    for (const auto& [host, count] : left) {
      if (candidate.covers(host)) hosts.push_back(host);
    }
    width[candidate.name] = candidate.width;
    if (!hosts.empty()) covered.emplace_back(candidate.name, std::move(hosts));
  }
  for (;;) {
    for (auto& [name, hosts] : covered)
      std::erase_if(hosts, [&](const std::string& host) { return !left.contains(host); });
    const auto best = std::ranges::min_element(covered, [&](const auto& a, const auto& b) {
      if (a.second.size() != b.second.size()) return a.second.size() > b.second.size();
      if (width[a.first] != width[b.first]) return width[a.first] < width[b.first];
      return a.first < b.first;
    });
    if (best == covered.end() || best->second.empty()) return;
    Suggestion::Item& item = out.capabilities.emplace_back(best->first);
    for (const std::string& host : best->second) {
      item.count += left[host];
      left.erase(host);
    }
  }
}

void take_wildcards(Hosts& left, Suggestion& out) {
  std::map<std::string, std::size_t, std::less<>> children;
  for (const auto& [host, count] : left) {
    if (parse_ip_address(host)) continue;
    if (const std::string_view parent = parent_of(host); may_be_wildcard(parent)) ++children[std::string(parent)];
  }
  for (const auto& [parent, names] : children) {
    if (names < kNamesForWildcard) continue;
    Suggestion::Item item{"*." + parent};
    std::size_t taken = 0;
    for (auto host = left.begin(); host != left.end();) {
      if (host->first.ends_with("." + parent) && !parse_ip_address(host->first)) {
        item.count += host->second;
        ++taken;
        host = left.erase(host);
      } else {
        ++host;
      }
    }
    // A wider wildcard may have taken the names already.
    if (taken > 0) out.rules.push_back(std::move(item));
  }
}

Hosts usable(const std::vector<Asked>& asked, Suggestion& out) {
  Hosts left, refused;
  for (const Asked& each : asked) {
    if (const auto address = parse_ip_address(each.host)) {
      (is_public(*address) ? left : refused)[format_ip_address(*address)] += each.count;
    } else if (const auto name = parse_host_name(each.host)) {
      left[*name] += each.count;
    } else {
      refused[each.host] += each.count;
    }
  }
  for (const auto& [host, count] : refused) out.left_out.push_back({host, count});
  return left;
}

void sort(std::vector<Suggestion::Item>& items) { std::ranges::sort(items, {}, &Suggestion::Item::target); }

std::string times(std::uint64_t count) { return "asked " + std::to_string(count) + (count == 1 ? " time" : " times"); }

}  // namespace

Suggestion suggest(const std::vector<Asked>& asked, const Catalogue& catalogue) {
  Suggestion out;
  Hosts left = usable(asked, out);
  take_capabilities(left, catalogue, out);
  take_wildcards(left, out);
  for (const auto& [host, count] : left) out.rules.push_back({host, count});
  sort(out.capabilities);
  sort(out.rules);
  return out;
}

std::string Suggestion::to_toml(const std::string& name) const {
  std::string out = "name = " + in_quotes(name) + "\ndefault_action = \"deny\"\n";
  if (!capabilities.empty()) {
    out += "capabilities = [\n";
    for (const Item& item : capabilities) out += "  " + in_quotes(item.target) + ",  # " + times(item.count) + "\n";
    out += "]\n";
  }
  for (const Item& item : left_out) {
    out += "# left out: " + in_quotes(item.target, 253) + ", " + times(item.count) + "; not a host of the internet\n";
  }
  if (rules.empty()) return out;
  out += "\n[overrides]\negress = [\n";
  for (const Item& item : rules) {
    out += "  {action = \"allow\", target = " + in_quotes(item.target, 253) + "},  # " + times(item.count) + "\n";
  }
  return out + "]\n";
}

}  // namespace osb::policy
