#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/problem.h"

namespace osb::cli {

// A sandbox or snapshot that a user may mean.
struct Referable {
  std::string id;
  std::string name;  // "" is none
  bool ended = false;
};

// The shortest beginning of an id that stands for the id.
inline constexpr std::size_t kShortestPrefix = 3;

// Whether `text` is a whole id: such a text needs no look-up.
bool is_whole_id(std::string_view text);

// The id that `given` means among `known`: an id itself, else a name, else the beginning of one id. Of several with the
// same name the one that has not ended wins. `kind` is "sandbox" or "snapshot". No match and several matches are errors
// that say so.
Expected<std::string> choose_reference(std::string_view kind, const std::string& given,
                                       const std::vector<Referable>& known);

// A name for a sandbox: lower-case letters, digits and '-' as in a host name, at most 63, and not an id.
Expected<void> check_name(std::string_view name);

}  // namespace osb::cli
