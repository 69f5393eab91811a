#include "cli/live/top_table.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "cli/encode.h"
#include "cli/lookup/lookup.h"
#include "cli/transfer/transfer_progress.h"

namespace osb::cli {
namespace {

using opensandbox::Timestamp;

std::chrono::seconds whole_seconds(std::chrono::microseconds time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time);
}

std::string memory_text(const TopRow& row) {
  if (!row.metrics) return "-";
  constexpr double kMiB = 1 << 20;
  return format_bytes(row.metrics->mem_used_mib * kMiB) + " / " + format_bytes(row.metrics->mem_total_mib * kMiB);
}

std::string cpu_text(const TopRow& row) {
  return row.metrics ? fmt::format("{:.1f}%", row.metrics->cpu_used_pct) : "-";
}

std::string deadline_text(const TopRow& row, Timestamp now) {
  return row.info.expires_at ? short_duration(whole_seconds(*row.info.expires_at - now)) : "-";
}

}  // namespace

void sort_rows(std::vector<TopRow>& rows, TopOrder order) {
  const auto key = [order](const TopRow& row) -> double {
    switch (order) {
      case TopOrder::Cpu:
        return row.metrics ? -row.metrics->cpu_used_pct : 1;
      case TopOrder::Memory:
        return row.metrics ? -row.metrics->mem_used_mib : 1;
      case TopOrder::Age:
        return static_cast<double>(row.info.created_at.time_since_epoch().count());
      case TopOrder::Deadline:
        return row.info.expires_at ? static_cast<double>(row.info.expires_at->time_since_epoch().count())
                                   : std::numeric_limits<double>::max();
    }
    return 0;
  };
  std::sort(rows.begin(), rows.end(), [&](const TopRow& a, const TopRow& b) {
    return std::pair(key(a), std::string_view(a.info.id)) < std::pair(key(b), std::string_view(b.info.id));
  });
}

std::string short_duration(std::chrono::seconds time) {
  const auto total = std::max<std::int64_t>(0, time.count());
  if (total < 60) return fmt::format("{}s", total);
  if (total < 3600) return fmt::format("{}m{:02}s", total / 60, total % 60);
  if (total < 86400) return fmt::format("{}h{:02}m", total / 3600, total % 3600 / 60);
  return fmt::format("{}d{:02}h", total / 86400, total % 86400 / 3600);
}

namespace {

std::string image_of(const opensandbox::SandboxInfo& info) {
  return info.image.empty() ? info.snapshot_id : info.image;
}

std::string wide_line(const TopRow& row, Timestamp now) {
  return fmt::format("{:<36}  {:<10}  {:>7}  {:>21}  {:>7}  {:>8}  {}", row.info.id, row.info.status.state,
                     cpu_text(row), memory_text(row), short_duration(whole_seconds(now - row.info.created_at)),
                     deadline_text(row, now), image_of(row.info));
}

std::string narrow_line(const TopRow& row, Timestamp now) {
  constexpr std::size_t kShortId = 12;
  const std::string name = name_of(row.info);
  const std::string used = row.metrics ? format_bytes(row.metrics->mem_used_mib * (1 << 20)) : "-";
  return fmt::format("{:<12}  {:<9}  {:>6}  {:>10}  {:>7}  {:>8}  {}", row.info.id.substr(0, kShortId),
                     row.info.status.state, cpu_text(row), used,
                     short_duration(whole_seconds(now - row.info.created_at)), deadline_text(row, now),
                     name.empty() ? image_of(row.info) : name);
}

}  // namespace

std::vector<std::string> top_lines(const std::vector<TopRow>& rows, Timestamp now, std::size_t columns,
                                   std::size_t lines, bool wide) {
  std::size_t running = 0;
  double cpu = 0, memory = 0;
  for (const TopRow& row : rows) {
    if (row.info.status.state == opensandbox::state::kRunning) ++running;
    if (!row.metrics) continue;
    cpu += row.metrics->cpu_used_pct;
    memory += row.metrics->mem_used_mib;
  }
  std::vector<std::string> out;
  out.push_back(fmt::format("{} sandboxes, {} running, cpu {:.1f}%, memory {}", rows.size(), running, cpu,
                            format_bytes(memory * (1 << 20))));
  out.push_back(wide ? fmt::format("{:<36}  {:<10}  {:>7}  {:>21}  {:>7}  {:>8}  {}", "ID", "STATE", "CPU", "MEMORY",
                                   "AGE", "DEADLINE", "IMAGE")
                     : fmt::format("{:<12}  {:<9}  {:>6}  {:>10}  {:>7}  {:>8}  {}", "ID", "STATE", "CPU", "MEMORY",
                                   "AGE", "DEADLINE", "NAME/IMAGE"));
  for (const TopRow& row : rows) {
    if (out.size() >= lines) break;
    out.push_back(wide ? wide_line(row, now) : narrow_line(row, now));
  }
  for (std::string& line : out) {
    if (line.size() > columns) line.resize(columns);
  }
  return out;
}

boost::json::array top_json(const std::vector<TopRow>& rows, Timestamp now) {
  json::array out;
  for (const TopRow& row : rows) {
    json::value remaining = nullptr;
    if (row.info.expires_at) remaining = whole_seconds(*row.info.expires_at - now).count();
    json::object item{{"id", row.info.id},
                      {"state", row.info.status.state},
                      {"image", text_or_null(row.info.image)},
                      {"snapshot_id", text_or_null(row.info.snapshot_id)},
                      {"created_at", opensandbox::format_timestamp(row.info.created_at)},
                      {"expires_at", time_or_null(row.info.expires_at)},
                      {"age_seconds", whole_seconds(now - row.info.created_at).count()},
                      {"remaining_seconds", std::move(remaining)}};
    const auto number = [&](const char* name, double opensandbox::Metrics::* field) {
      item[name] = row.metrics ? json::value((*row.metrics).*field) : json::value();
    };
    number("cpu_count", &opensandbox::Metrics::cpu_count);
    number("cpu_used_percentage", &opensandbox::Metrics::cpu_used_pct);
    number("memory_total_in_mib", &opensandbox::Metrics::mem_total_mib);
    number("memory_used_in_mib", &opensandbox::Metrics::mem_used_mib);
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace osb::cli
