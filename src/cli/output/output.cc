#include "cli/output/output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <unistd.h>

#include "base/text.h"
#include "cli/output/spinner.h"
#include "sys/pty.h"
#include "yaml/writer.h"

namespace osb::cli {
namespace {

constexpr std::string_view kReset = "\x1b[0m", kBold = "\x1b[1m", kDim = "\x1b[2m", kRed = "\x1b[1;31m",
                           kGreen = "\x1b[1;32m", kYellow = "\x1b[1;33m", kBlue = "\x1b[1;34m", kMagenta = "\x1b[1;35m",
                           kCyan = "\x1b[1;36m";

std::string styled(const Sink& sink, std::string_view style, std::string_view text) {
  if (!sink.color || style.empty()) return std::string(text);
  return std::string(style) + std::string(text) + std::string(kReset);
}

struct StateLook {
  std::string_view style, symbol;
};

StateLook state_look(std::string_view state) {
  const std::string name = lower(state);
  for (const char* word : {"running", "ready", "healthy", "true"}) {
    if (name == word) return {kGreen, "●"};
  }
  for (const char* word : {"pending", "creating", "starting", "pausing", "resuming", "stopping"}) {
    if (name == word) return {kYellow, "◐"};
  }
  if (name == "paused") return {kBlue, "⏸"};
  for (const char* word : {"stopped", "terminated", "killed"}) {
    if (name == word) return {kDim, "○"};
  }
  for (const char* word : {"error", "failed", "unhealthy", "false"}) {
    if (name == word) return {kRed, "✗"};
  }
  if (name == "created") return {kCyan, "✦"};
  return {};
}

bool is_state_column(std::string_view name) { return name == "status" || name == "state" || name == "healthy"; }

std::string_view column_style(std::string_view name) {
  if (name == "id" || name.ends_with("_id")) return kCyan;
  if (name.ends_with("_at")) return kDim;
  return {};
}

struct Cell {
  std::string text;
  std::string_view style;
};

Cell make_cell(std::string_view column, std::string text) {
  Cell cell{std::move(text), column_style(column)};
  if (is_state_column(column)) {
    const StateLook look = state_look(cell.text);
    if (!look.symbol.empty()) cell = {std::string(look.symbol) + " " + cell.text, look.style};
  }
  return cell;
}

std::string cell_text(const json::value& row, const std::string& key) {
  const json::value* value = row.is_object() ? row.get_object().if_contains(key) : nullptr;
  return value != nullptr ? to_cell(*value) : "-";
}

// A value of a table with two columns: long ones go on in the next line.
std::string value_text(const Sink& sink, const json::object& object, std::string_view value) {
  std::size_t keys = 3;
  for (const auto& [key, unused] : object) keys = std::max(keys, text_width(key));
  constexpr std::size_t kLeast = 20;
  if (sink.columns == 0) return std::string(value);
  return wrapped_cell(value, std::max(kLeast, sink.columns > keys + 7 ? sink.columns - keys - 7 : kLeast));
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  do {
    const auto end = std::min(text.find('\n'), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  } while (!text.empty());
  return out;
}

using Row = std::vector<Cell>;

std::string boxed(const Sink& sink, const std::vector<std::string>& headers, const std::vector<Row>& rows,
                  std::string_view title, bool rules) {
  std::vector<std::size_t> widths;
  for (const std::string& header : headers) widths.push_back(text_width(header));
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      for (const std::string& line : lines_of(row[i].text)) widths[i] = std::max(widths[i], text_width(line));
    }
  }
  const auto rule = [&](std::string_view left, std::string_view middle, std::string_view right) {
    std::string line(left);
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (i > 0) line += middle;
      for (std::size_t n = 0; n < widths[i] + 2; ++n) line += "─";
    }
    return styled(sink, kDim, line + std::string(right)) + "\n";
  };
  const std::string bar = styled(sink, kDim, "│");
  std::string out;
  const auto put = [&](const Row& row) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (const Cell& cell : row) height = std::max(height, cells.emplace_back(lines_of(cell.text)).size());
    for (std::size_t line = 0; line < height; ++line) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string text = line < cells[i].size() ? cells[i][line] : "";
        out += bar + " " + styled(sink, row[i].style, text) + std::string(widths[i] - text_width(text) + 1, ' ');
      }
      out += bar + "\n";
    }
  };
  if (!title.empty()) out += styled(sink, kCyan, title) + "\n";
  out += rule("╭", "┬", "╮");
  Row head;
  for (const std::string& header : headers) head.push_back({header, kMagenta});
  put(head);
  out += rule("├", "┼", "┤");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rules && i > 0) out += rule("├", "┼", "┤");
    put(rows[i]);
  }
  return out + rule("╰", "┴", "╯");
}

// One line per row; tabs and line ends inside a cell would make two cells or rows of it.
std::string tabbed(std::vector<std::string> cells) {
  std::string out;
  for (std::string& cell : cells) {
    std::ranges::replace_if(cell, [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
    if (&cell != &cells.front()) out += '\t';
    out += cell;
  }
  return out + "\n";
}

Sink sink_of(std::FILE* file, bool color) {
  const bool terminal = ::isatty(::fileno(file)) == 1;
  const char* refused = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool can = (refused == nullptr || *refused == '\0') && (term == nullptr || std::string_view(term) != "dumb");
  std::size_t columns = 0;
  if (const auto size = terminal ? sys::window_size(::fileno(file)) : fail(Code::Unavailable, ""); size) {
    columns = size->columns;
  }
  return {file, terminal, terminal && color && can, columns};
}

}  // namespace

Sink standard_out(bool color) { return sink_of(stdout, color); }
Sink standard_error(bool color) { return sink_of(stderr, color); }

Output::Output(Format format, Sink out, Sink err) : format_(format), out_(out), err_(err) {}
Output::~Output() = default;

void Output::busy(std::string message) { busy_ = std::make_unique<Spinner>(*this, std::move(message)); }

void Output::write(const Sink& sink, std::string_view text) {
  busy_.reset();
  errno = 0;
  std::fwrite(text.data(), 1, text.size(), sink.file);
  if (sink.file == out_.file) note_write_error();
}

// Right after the call: a stream remembers that there was an error, but not which.
void Output::note_write_error() {
  if (write_error_ == 0 && std::ferror(out_.file) != 0) write_error_ = errno != 0 ? errno : EIO;
}

void Output::text(std::string_view bytes) { write(out_, bytes); }
void Output::error_text(std::string_view bytes) { write(err_, bytes); }

void Output::flush() {
  errno = 0;
  std::fflush(out_.file);
  note_write_error();
  std::fflush(err_.file);
}

void Output::data(const json::value& value) {
  write(out_, format_ == Format::Yaml ? yaml::to_text(value, yaml::Keys::Sorted) : to_pretty_json(value) + "\n");
}

void Output::json_line(const json::value& value) {
  write(out_, to_json_line(value) + "\n");
  flush();
}

void Output::say(std::string_view status, std::string_view message) {
  if (structured()) return data(json::object{{"status", status}, {"message", message}});
  struct Look {
    std::string_view status, plain, symbol, style;
  };
  constexpr Look kLooks[] = {{"ok", "OK", "✓", kGreen},
                             {"info", "INFO", "ℹ", kBlue},
                             {"warning", "WARN", "⚠", kYellow},
                             {"error", "ERROR", "✗", kRed}};
  const Look& look = *std::ranges::find(kLooks, status, &Look::status);
  const Sink& sink = status == "warning" || status == "error" ? err_ : out_;
  if (sink.color) {
    write(sink, "  " + styled(sink, look.style, std::string(look.symbol) + " " + std::string(message)) + "\n");
  } else {
    write(sink, std::string(look.plain) + ": " + std::string(message) + "\n");
  }
}

void Output::panel(std::string_view title, const json::object& result) {
  if (structured()) return data(result);
  std::string text;
  if (out_.color) {
    text = "\n  " + styled(out_, kGreen, "✓ " + std::string(title)) + "\n  ";
    std::string rule;
    for (std::size_t i = 0; i < text_width(title) + 2; ++i) rule += "─";
    text += styled(out_, kDim, rule) + "\n";
  } else {
    text = "--- " + std::string(title) + " ---\n";
  }
  for (const auto& [key, value] : result) {
    text += "  " + styled(out_, kBold, std::string(key) + ":") + " " + to_cell(value) + "\n";
  }
  write(out_, out_.color ? text + "\n" : text);
}

void Output::object(const json::object& object, std::string_view title) {
  if (structured()) return data(object);
  if (!out_.terminal) {
    for (const auto& [key, value] : object) write(out_, tabbed({std::string(key), to_cell(value)}));
    return;
  }
  std::vector<Row> rows;
  for (const auto& [key, value] : object) {
    rows.push_back({{std::string(key), kCyan}, make_cell(key, value_text(out_, object, to_cell(value)))});
  }
  write(out_, boxed(out_, {"Key", "Value"}, rows, title, true));
}

void Output::rows(const json::array& rows, const std::vector<std::string>& columns, std::string_view title) {
  std::vector<Column> plain;
  for (const std::string& key : columns) plain.push_back({.key = key});
  table(rows, plain, title);
}

void Output::table(const json::array& rows, const std::vector<Column>& columns, std::string_view title) {
  if (structured()) return data(rows);
  const bool wide = format_ == Format::Wide;
  using Place = Column::Place;
  std::vector<Column> shown;
  for (const Column& column : columns) {
    const Place other = out_.terminal ? Place::Pipe : Place::Terminal;
    if (!wide && (column.place == Place::Wide || column.place == other)) continue;
    shown.push_back(column);
    if (wide) shown.back().kind = Column::Kind::Plain;
  }
  if (!out_.terminal) {
    std::vector<std::string> headers;
    for (const Column& column : shown) headers.push_back(upper(column.key));
    write(out_, tabbed(headers));
    for (const json::value& row : rows) {
      std::vector<std::string> cells;
      for (const Column& column : shown) cells.push_back(cell_text(row, column.key));
      write(out_, tabbed(std::move(cells)));
    }
    return;
  }
  const TableText text = fit_table(rows, shown, wide ? 0 : out_.columns, timestamp_now());
  std::vector<Row> lines;
  for (const auto& cells : text.rows) {
    Row& line = lines.emplace_back();
    for (std::size_t i = 0; i < cells.size(); ++i) line.push_back(make_cell(text.keys[i], cells[i]));
  }
  write(out_, boxed(out_, text.headers, lines, title, false));
}

void Output::problem(const Problem& problem) {
  std::fflush(out_.file);
  if (structured()) {
    json::object error{{"code", problem.code}, {"message", problem.message}};
    if (!problem.hint.empty()) error["hint"] = problem.hint;
    if (!problem.title.empty()) error["title"] = problem.title;
    if (problem.status != 0) error["status"] = problem.status;
    if (!problem.request_id.empty()) error["request_id"] = problem.request_id;
    const json::object body{{"error", std::move(error)}};
    return write(err_, format_ == Format::Yaml ? yaml::to_text(body, yaml::Keys::Sorted) : to_pretty_json(body) + "\n");
  }
  std::string sentence = problem.message;
  if (!sentence.empty() && std::string_view(".!?").find(sentence.back()) == std::string_view::npos) sentence += '.';
  if (!problem.hint.empty()) sentence += " " + problem.hint;
  const std::string head = problem.title.empty() ? "Error:" : "ERROR [" + problem.title + "]:";
  write(err_, styled(err_, kRed, head) + " " + sentence + "\n");
}

}  // namespace osb::cli
