#pragma once

#include <opensandbox/types.h>
#include <optional>
#include <string>
#include <vector>

#include <boost/json/array.hpp>

namespace osb::cli {

struct TopRow {
  opensandbox::SandboxInfo info;
  std::optional<opensandbox::Metrics> metrics;  // nothing: not running, or it does not answer
};

enum class TopOrder { Cpu, Memory, Age, Deadline };

// Busiest, biggest, oldest or soonest first; unknown values last.
void sort_rows(std::vector<TopRow>& rows, TopOrder order);

// "3s", "12m", "5h03m", "2d04h"; "0s" for what is negative.
std::string short_duration(std::chrono::seconds time);

// From so many columns on a terminal has room for wide lines.
inline constexpr std::size_t kWideTop = 120;

// A line of totals, a line of headings, a line per sandbox: each cut to `columns` characters, `lines` at most. `wide`:
// whole ids and memory limits; else short ids and names, which fit 80 columns.
std::vector<std::string> top_lines(const std::vector<TopRow>& rows, opensandbox::Timestamp now, std::size_t columns,
                                   std::size_t lines, bool wide);

boost::json::array top_json(const std::vector<TopRow>& rows, opensandbox::Timestamp now);

}  // namespace osb::cli
