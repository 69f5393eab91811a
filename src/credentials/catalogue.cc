#include "credentials/catalogue.h"

#include <algorithm>

#include "vault/binding.h"

namespace osb::credentials {

Result<Catalogue> Catalogue::make(const config::CredentialsSection& section) {
  Catalogue out;
  for (Entry entry : section.entries) {
    for (std::string& host : entry.hosts) {
      auto good = vault::parse_binding_host(host);
      if (!good) return with_context("[credentials] entry " + entry.name + ": hosts", good.error());
      host = std::move(*good);
    }
    const std::string name = entry.name;
    out.entries_.emplace(name, std::move(entry));
  }
  return out;
}

const Entry* Catalogue::find(std::string_view name, std::string_view tenant) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return nullptr;
  const bool permitted = std::ranges::any_of(found->second.tenants,
                                             [&](const std::string& each) { return each == "*" || each == tenant; });
  return permitted ? &found->second : nullptr;
}

}  // namespace osb::credentials
