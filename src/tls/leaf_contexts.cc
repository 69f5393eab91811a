#include "tls/leaf_contexts.h"

#include <algorithm>
#include <utility>

#include "tls/host_name.h"

namespace osb::tls {
namespace {

// Long before it expires, and also after the clock was set back.
bool is_fresh(std::chrono::system_clock::time_point made, std::chrono::system_clock::time_point now) {
  return now >= made - std::chrono::minutes(30) && now < made + std::chrono::days(CertificateAuthority::kLeafDays) / 2;
}

}  // namespace

LeafContexts::LeafContexts(CertificateAuthority authority, std::size_t most, const Clock& clock)
    : authority_(std::move(authority)), most_(std::max<std::size_t>(most, 1)), clock_(clock) {}

Result<std::shared_ptr<const ServerContext>> LeafContexts::for_host(std::string_view host) {
  auto name = parse_dns_name(host);
  if (!name) return fail(Code::InvalidRequest, "no certificate can be made for \"" + std::string(host) + "\"");
  const auto now = clock_.now();
  if (const auto found = by_host_.find(*name); found != by_host_.end()) {
    if (is_fresh(found->second->made, now)) {
      leaves_.splice(leaves_.begin(), leaves_, found->second);
      return leaves_.front().context;
    }
    leaves_.erase(found->second);
    by_host_.erase(found);
  }
  auto context = authority_.issue(*name);
  if (!context) return Failure(context.error());
  if (leaves_.size() >= most_) {
    by_host_.erase(leaves_.back().host);
    leaves_.pop_back();
  }
  leaves_.push_front({*name, std::move(*context), now});
  by_host_.emplace(std::move(*name), leaves_.begin());
  return leaves_.front().context;
}

}  // namespace osb::tls
