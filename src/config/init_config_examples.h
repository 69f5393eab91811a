#pragma once

#include <string>
#include <string_view>

namespace osb::config {

// A configuration for one purpose: some keys of the table, in its order and with its documentation. The zh ones have
// the same values with comments in Chinese. Nothing for an unknown name.
std::string make_example(std::string_view name);

}  // namespace osb::config
