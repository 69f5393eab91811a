#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/error.h"
#include "tls/authority.h"
#include "tls/context.h"

namespace osb::tls {

// Server contexts with certificates of an authority, one per host, made when the host is first asked for. The number is
// bounded: the one that was not used for longest goes first. A connection keeps its context.
class LeafContexts {
 public:
  static constexpr std::size_t kMost = 128;

  explicit LeafContexts(CertificateAuthority authority, std::size_t most = kMost, const Clock& clock = system_clock());

  // `host` is a DNS name.
  Result<std::shared_ptr<const ServerContext>> for_host(std::string_view host);

  const CertificateAuthority& authority() const { return authority_; }
  std::size_t size() const { return by_host_.size(); }

 private:
  struct Leaf {
    std::string host;
    std::shared_ptr<const ServerContext> context;
    std::chrono::system_clock::time_point made;
  };
  using Leaves = std::list<Leaf>;  // the last used one is in front

  CertificateAuthority authority_;
  const std::size_t most_;
  const Clock& clock_;
  Leaves leaves_;
  std::unordered_map<std::string, Leaves::iterator> by_host_;
};

}  // namespace osb::tls
