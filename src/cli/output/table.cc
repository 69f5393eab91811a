#include "cli/output/table.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/output/output.h"

namespace osb::cli {
namespace {

constexpr std::size_t kShortId = 12;

// How many bytes of `text` the first `count` code points take.
std::size_t bytes_of(std::string_view text, std::size_t count) {
  const char* p = text.data();
  const char* const end = p + text.size();
  for (; p < end && count > 0; --count) p += std::max<std::size_t>(1, utf8_sequence_length(p, end));
  return static_cast<std::size_t>(std::min(p, end) - text.data());
}

std::string single_unit(std::int64_t seconds) {
  if (seconds < 60) return std::to_string(seconds) + "s";
  if (seconds < 3600) return std::to_string(seconds / 60) + "m";
  if (seconds < 2 * 86400) return std::to_string(seconds / 3600) + "h";
  return std::to_string(seconds / 86400) + "d";
}

// The fewest characters that tell these ids apart, at least kShortId.
std::size_t id_length(const std::vector<std::string>& ids) {
  const std::set<std::string> all(ids.begin(), ids.end());
  std::size_t length = kShortId;
  for (auto it = all.begin(); it != all.end() && std::next(it) != all.end(); ++it) {
    const auto& next = *std::next(it);
    const auto common = static_cast<std::size_t>(std::ranges::mismatch(*it, next).in1 - it->begin());
    length = std::max(length, common + 1);
  }
  return length;
}

std::vector<std::string> cells_of(const json::array& rows, const Column& column, Timestamp now) {
  std::vector<std::string> out;
  for (const json::value& row : rows) {
    const json::value* value = row.is_object() ? row.get_object().if_contains(column.key) : nullptr;
    std::string text = value != nullptr ? to_cell(*value) : "-";
    if (column.kind == Column::Kind::Age && value != nullptr && value->is_string()) text = age_text(text, now);
    out.push_back(std::move(text));
  }
  if (column.kind == Column::Kind::Id) {
    const std::size_t length = id_length(out);
    for (std::string& text : out) text = text.substr(0, bytes_of(text, length));
  }
  return out;
}

std::string header_of(const Column& column) { return upper(column.header.empty() ? column.key : column.header); }

}  // namespace

std::size_t text_width(std::string_view text) {
  std::size_t out = 0;
  for (const char *p = text.data(), *end = p + text.size(); p < end; ++out) {
    p += std::max<std::size_t>(1, utf8_sequence_length(p, end));
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t width) {
  if (text_width(text) <= width) return std::string(text);
  if (width == 0) return {};
  return std::string(text.substr(0, bytes_of(text, width - 1))) + "…";
}

std::string wrapped_cell(std::string_view text, std::size_t width) {
  std::string out;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t bytes = bytes_of(text, 1);
    if (text.front() == '\n') {
      used = 0;
    } else if (used == width) {
      out += '\n';
      used = 1;
    } else {
      ++used;
    }
    out += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return out;
}

std::string age_text(const std::string& moment, Timestamp now) {
  const auto time = parse_timestamp(moment);
  if (!time) return moment;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - *time).count();
  return seconds >= 0 ? single_unit(seconds) + " ago" : "in " + single_unit(-seconds);
}

std::vector<std::size_t> fit_widths(const std::vector<ColumnWidth>& columns, std::size_t width, std::size_t frame) {
  std::vector<std::size_t> out;
  for (const ColumnWidth& column : columns) out.push_back(column.natural);
  if (width == 0) return out;
  const auto total = [&] {
    std::size_t sum = 1;  // the last bar
    for (const std::size_t each : out) sum += each == 0 ? 0 : each + frame;
    return sum;
  };
  std::vector<std::size_t> order(columns.size());  // the least important first
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(-columns[i].rank, i); });
  for (const std::size_t i : order) {
    const std::size_t over = total() > width ? total() - width : 0;
    const std::size_t least = columns[i].least;
    if (least > 0 && out[i] > least) out[i] = std::max(least, out[i] - std::min(over, out[i]));
  }
  for (const std::size_t i : order) {
    if (total() > width && columns[i].rank > 0) out[i] = 0;
  }
  // Room that a column left behind goes to the most important of those that were shortened.
  for (auto it = order.rbegin(); it != order.rend() && total() < width; ++it) {
    if (out[*it] > 0) out[*it] = std::min(columns[*it].natural, out[*it] + width - total());
  }
  return out;
}

TableText fit_table(const json::array& rows, std::vector<Column> columns, std::size_t width, Timestamp now,
                    std::size_t frame) {
  std::vector<std::vector<std::string>> cells;
  std::vector<ColumnWidth> widths;
  for (const Column& column : columns) {
    cells.push_back(cells_of(rows, column, now));
    std::size_t natural = text_width(header_of(column));
    for (const std::string& text : cells.back()) natural = std::max(natural, text_width(text));
    // A state is shown with a symbol before it.
    if (column.key == "status" || column.key == "state") natural += 2;
    widths.push_back({natural, column.least, column.rank});
  }
  const std::vector<std::size_t> fitted = fit_widths(widths, width, frame);
  TableText out;
  out.rows.resize(rows.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (fitted[i] == 0) continue;
    out.keys.push_back(columns[i].key);
    out.headers.push_back(shortened(header_of(columns[i]), fitted[i]));
    for (std::size_t row = 0; row < rows.size(); ++row) out.rows[row].push_back(shortened(cells[i][row], fitted[i]));
  }
  return out;
}

}  // namespace osb::cli
