#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/array.hpp>

#include "base/time.h"

namespace osb::cli {

namespace json = boost::json;

// One column of a list, and how much it may lose on a narrow terminal.
struct Column {
  enum class Kind {
    Plain,
    Id,   // short on a terminal: as many characters as tell the rows apart, at least twelve
    Age,  // a moment; "3m ago" or "in 7m" on a terminal
  };
  enum class Place {
    Everywhere,
    Pipe,      // not on a terminal
    Terminal,  // not in a pipe
    Wide,      // with -o wide only
  };

  std::string key;
  Kind kind = Kind::Plain;
  int rank = 0;           // the higher, the sooner it is shortened and left out; 0 is never left out
  std::size_t least = 0;  // may be shortened to so many characters; 0: not at all
  Place place = Place::Everywhere;
  std::string header = {};  // on a terminal; else the key
};

// A table as it is shown on a terminal: text only.
struct TableText {
  std::vector<std::string> keys, headers;
  std::vector<std::vector<std::string>> rows;
};

// The cells of `rows` for a terminal with so many columns (0: any number). Short ids, ages, and what does not fit is
// shortened with an ellipsis or left out, the least important first. `frame`: characters around each cell.
TableText fit_table(const json::array& rows, std::vector<Column> columns, std::size_t width, Timestamp now,
                    std::size_t frame = 3);

// The widths of columns that are so wide by nature; 0 leaves one out.
struct ColumnWidth {
  std::size_t natural = 0, least = 0;
  int rank = 0;
};
std::vector<std::size_t> fit_widths(const std::vector<ColumnWidth>& columns, std::size_t width, std::size_t frame);

// "3m ago", "in 7m"; the text itself where it is no moment.
std::string age_text(const std::string& moment, Timestamp now);

// Columns that a terminal uses for `text`: its code points.
std::size_t text_width(std::string_view text);
// At most `width` columns of it, the last one an ellipsis where something is missing.
std::string shortened(std::string_view text, std::size_t width);
// In lines of at most `width` columns.
std::string wrapped_cell(std::string_view text, std::size_t width);

}  // namespace osb::cli
