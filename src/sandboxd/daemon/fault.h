#pragma once

#include <functional>
#include <string_view>

namespace osb::sandboxd {

// A test aid. With SANDBOXD_FAULT=STEP in the environment the returned function ends the process, as kill -9 would,
// when it is called with that step; with STEP:N at the Nth time. Empty without the variable.
std::function<void(std::string_view step)> fault_from_environment();

}  // namespace osb::sandboxd
