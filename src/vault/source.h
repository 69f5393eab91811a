#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "base/time.h"

namespace osb::vault {

// Where the value of a credential comes from: from the request itself, or from an entry of the operator. The server
// fetches the values of entries and hands them over.
struct Source {
  std::string entry = {};  // the operator's name of it; empty: the request had the value
  // The hosts of bindings that may use the value; empty: every host. An operator's value has at least one, so that
  // nobody who may write bindings sends it elsewhere.
  std::vector<std::string> hosts = {};
  std::optional<Timestamp> expires = {};  // from then on requests that need the value are refused

  bool is_operators() const { return !entry.empty(); }
  std::string_view type() const { return is_operators() ? "operator" : "inline"; }
  // Whether all requests to `host`, a name or "*.name", stay within the hosts.
  bool permits(std::string_view host) const;
  bool operator==(const Source&) const = default;
};

// The members beside the value: "type", "entry", "hosts", "expiresAt".
Source read_source(api::ObjectReader& reader);

// The fields that a credential has beside its name and revision.
void add_to(api::json::object& credential, const Source& source);
Source read_stored_source(api::ObjectReader& credential);

}  // namespace osb::vault
