#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/templates/catalogue.h"

namespace osb::policy {

// A host that a sandbox asked for: a name, or an address without one.
struct Asked {
  std::string host;
  std::uint64_t count = 1;
};

// The smallest template that allows the hosts. A capability takes the place of every name that it covers; of several
// that cover equally many the narrowest is taken. "*.parent" takes the place of three or more names with one parent,
// unless other people can register names below that parent ("co.uk", "github.io"). Every other name and every public
// address is a rule of its own. Left out: addresses that are not public, since a rule would open the private network or
// the metadata service, and hosts that no rule can match.
struct Suggestion {
  struct Item {
    std::string target;  // capability or target
    std::uint64_t count = 0;
  };
  std::vector<Item> capabilities;
  std::vector<Item> rules;
  std::vector<Item> left_out;

  // A template file. It denies everything else.
  std::string to_toml(const std::string& name) const;
};

Suggestion suggest(const std::vector<Asked>& asked, const Catalogue& catalogue);

}  // namespace osb::policy
