#include "kubernetes/resource.h"

#include "http/url.h"

namespace osb::kubernetes {

std::string Resource::path(std::string_view ns, std::string_view name, std::string_view subresource) const {
  std::string out = (group.empty() ? "/api/" : "/apis/" + group + "/") + version;
  if (namespaced && !ns.empty()) out += "/namespaces/" + http::percent_encode(ns);
  out += "/" + plural;
  if (!name.empty()) out += "/" + http::percent_encode(name);
  if (!subresource.empty()) out += "/" + std::string(subresource);
  return out;
}

}  // namespace osb::kubernetes
