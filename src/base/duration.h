#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb {

// Go's duration syntax, which flags and environment variables of the contract use: a sign, then numbers with units
// (ns, us, µs, ms, s, m, h), as in "500ms", "1m30s", "1.5h", "-1s"; only zero may stand without unit. Digits below a
// nanosecond are dropped; a value that does not fit 64 bits is an error.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

// The same syntax back: "1h0m0s", "1m30s", "1.5s", "500ms", "0s".
std::string format_duration(std::chrono::nanoseconds duration);

}  // namespace osb
