#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace osb {

// Reason codes that statuses and events carry beside their older fields.
inline constexpr const char* kReasonOutOfMemory = "OUT_OF_MEMORY";
inline constexpr const char* kReasonTimeout = "TIMEOUT";
inline constexpr const char* kReasonInterrupted = "INTERRUPTED";

// "256 MiB", "2 GiB", "1.5 MiB", "512 KiB", "300 B".
std::string format_binary_size(std::uint64_t bytes);

// "out of memory (limit 256 MiB)". Without a limit, or if the limit was not reached, there was no memory left on the
// host or in a limit that several sandboxes share; the counters of a sandbox do not tell these two apart.
std::string out_of_memory_message(std::optional<std::uint64_t> limit_bytes, bool limit_reached = true);

}  // namespace osb
