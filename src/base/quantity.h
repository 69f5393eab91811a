#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace osb {

// Amounts of resources as clients write them. There is one grammar per contract: Kubernetes fields take Kubernetes
// quantities, Docker and native sandboxes Docker's rules. Errors name the field and the string; what does not fit the
// result is an error and never wraps.

// Kubernetes: a decimal number and a binary suffix (Ki Mi Gi Ti Pi Ei), a decimal one (n u m k M G T P E) or an
// exponent (e3, E-2). Negative amounts are refused: no resource has one. Exact, and rounded up to the next whole unit,
// as Kubernetes rounds: a limit is never smaller than what was written.
Result<std::uint64_t> parse_quantity(std::string_view field, std::string_view text);         // bytes, counts
Result<std::uint64_t> parse_quantity_millis(std::string_view field, std::string_view text);  // cpu: "0.5" is 500

// Docker: whole numbers with an optional k, m, g or t of either case, alone or followed by b (powers of 1000) or by i
// (powers of 1024); or b alone. Fits the engine's signed 64 bits. Zero passes, and means "no limit" to the engine.
Result<std::uint64_t> parse_docker_memory(std::string_view text, std::string_view field = "memory");

// Docker: a decimal number of cpus, or of thousandths with an m behind it, above zero. The result is in billionths of
// a cpu, cut off there; less than one billionth is refused, for zero would mean "no limit".
Result<std::int64_t> parse_docker_cpu(std::string_view text, std::string_view field = "cpu");

// Docker: how many GPUs, at least one, or "all" in any case, which is -1.
Result<int> parse_docker_gpu(std::string_view text, std::string_view field = "gpu");

}  // namespace osb
