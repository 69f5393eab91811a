#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/server_config.h"

namespace osb::credentials {

using Entry = config::CredentialEntry;

// The operator's entries.
class Catalogue {
 public:
  Catalogue() = default;
  // Code::InvalidRequest names the entry and its wrong host.
  static Result<Catalogue> make(const config::CredentialsSection& section);

  bool empty() const { return entries_.empty(); }
  // Null: there is none that sandboxes of this tenant may use.
  const Entry* find(std::string_view name, std::string_view tenant) const;

 private:
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace osb::credentials
