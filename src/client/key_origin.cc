#include "client/key_origin.h"

#include <algorithm>

#include "base/text.h"
#include "http/url.h"

namespace opensandbox {
namespace {

osb::Result<osb::http::Url> parse(const ServerAddress& address) {
  const bool has_scheme = address.domain.find("://") != std::string::npos;
  auto url = osb::http::Url::parse(has_scheme ? address.domain : address.protocol + "://" + address.domain);
  if (!url) return url;
  url->scheme = osb::lower(url->scheme);
  url->host = osb::lower(url->host);
  if (url->host == "localhost") url->host = "127.0.0.1";
  return url;
}

}  // namespace

bool key_may_go(const ServerAddress& owner, const ServerAddress& target) {
  const auto from = parse(owner);
  const auto to = parse(target);
  if (!from || !to || from->host.empty() || from->host != to->host) return false;
  if (from->scheme == to->scheme) return from->port == to->port;
  const bool better = from->scheme == "http" && to->scheme == "https";
  return better && (from->port == to->port || (from->port == 80 && to->port == 443));
}

}  // namespace opensandbox
