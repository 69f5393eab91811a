#include "vault/match.h"

#include <algorithm>

#include "vault/path.h"

namespace osb::vault {
namespace {

bool is_wildcard(std::string_view host) { return host.starts_with("*."); }

bool intersect(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::ranges::any_of(a, [&](const std::string& each) { return std::ranges::find(b, each) != b.end(); });
}

bool hosts_overlap(std::string_view a, std::string_view b) {
  if (a == b) return true;
  if (!is_wildcard(a) || !is_wildcard(b)) return false;
  return a.ends_with(b.substr(1)) || b.ends_with(a.substr(1));
}

template <typename Overlap>
bool any_overlap(const std::vector<std::string>& a, const std::vector<std::string>& b, Overlap overlap) {
  return std::ranges::any_of(a, [&](const std::string& x) {
    return std::ranges::any_of(b, [&](const std::string& y) { return overlap(x, y); });
  });
}

}  // namespace

int host_precedence(const Match& match, std::string_view host) {
  int best = 0;
  for (const std::string& each : match.hosts) {
    if (each == host) return 2;
    const std::string_view suffix = std::string_view(each).substr(1);
    if (is_wildcard(each) && host.size() > suffix.size() && host.ends_with(suffix)) best = 1;
  }
  return best;
}

bool clash(const Match& a, const Match& b) {
  return intersect(a.schemes, b.schemes) && intersect(a.methods, b.methods) &&
         any_overlap(a.hosts, b.hosts, hosts_overlap) &&
         any_overlap(a.paths, b.paths, [](const std::string& x, const std::string& y) {
           return paths_overlap(read_path(x).normal, read_path(y).normal);
         });
}

Result<void> check_coverage(const Binding& binding, const policy::Matcher& policy) {
  for (const std::string& host : binding.match.hosts) {
    const bool below = is_wildcard(host);
    const policy::Verdict verdict = policy.name(below ? "probe" + host.substr(1) : host);
    bool covered = verdict.allowed();
    if (covered && below && verdict.rule != nullptr) {
      const auto* name = std::get_if<policy::NameTarget>(&verdict.rule->target);
      covered = name != nullptr && name->below;
    }
    if (!covered) {
      return fail(Code::InvalidRequest, "binding \"" + binding.name + "\": host " + host +
                                            " is not allowed by egress policy; add a rule that allows it first");
    }
  }
  return {};
}

}  // namespace osb::vault
