#include <algorithm>

#include "cli/args/command.h"

namespace osb::cli {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kMaxLeft = 34;

// `text` in lines of at most `width`, each after the first behind `indent` blanks.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    if (!out.empty() && out.back() != '\n' && column + 1 + word.size() > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent && !word.empty()) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    if (end == text.size()) break;
    if (text[end] == '\n') {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    }
    text.remove_prefix(end + 1);
  }
  return out;
}

struct Row {
  std::string left, right;
};

std::string section(std::string_view title, const std::vector<Row>& rows) {
  if (rows.empty()) return {};
  std::size_t left = 0;
  for (const Row& row : rows) {
    if (row.left.size() <= kMaxLeft) left = std::max(left, row.left.size());
  }
  std::string out = "\n" + std::string(title) + ":\n";
  for (const Row& row : rows) {
    out += "  " + row.left;
    if (row.left.size() > left) {
      out += "\n" + std::string(left + 4, ' ');
    } else {
      out += std::string(left + 2 - row.left.size(), ' ');
    }
    out += wrapped(row.right, left + 4, kWidth) + "\n";
  }
  return out;
}

}  // namespace

std::string Command::usage() const {
  std::string out = path() + " [OPTIONS]";
  if (!children_.empty()) return out + " COMMAND [ARGS]...";
  for (const Argument& argument : arguments_) {
    const bool many = argument.max_ > 1;
    out += argument.min_ == 0 ? " [" + argument.name_ + "]" : " " + argument.name_;
    if (many) out += "...";
  }
  return out;
}

std::string Command::help_text() const {
  std::string out = "Usage: " + usage() + "\n\n  " + wrapped(summary_, 2, kWidth) + "\n";
  if (!details_.empty()) out += "\n  " + wrapped(details_, 2, kWidth) + "\n";
  std::vector<Row> rows;
  for (const Argument& argument : arguments_) {
    if (!argument.help_.empty()) rows.push_back({argument.name_, argument.help_});
  }
  out += section("Arguments", rows);
  rows.clear();
  for (const Option& option : options_) {
    if (option.hidden_) continue;
    std::string left;
    const std::string_view separator = option.set_off_ ? " / " : ", ";
    for (const std::string& name : option.names_) left += (left.empty() ? "" : std::string(separator)) + name;
    if (!option.choices_.empty()) {
      left += " [";
      for (const std::string& choice : option.choices_) left += (left.back() == '[' ? "" : "|") + choice;
      left += "]";
    } else if (!option.metavar_.empty()) {
      left += " " + option.metavar_;
    }
    std::string right = option.help_;
    if (option.required_) right += right.empty() ? "[required]" : "  [required]";
    rows.push_back({std::move(left), std::move(right)});
  }
  rows.push_back({"-h, --help", "Show this message and exit."});
  out += section("Options", rows);
  rows.clear();
  for (const Command& child : children_) {
    if (!child.hidden_) rows.push_back({child.name_, child.summary_});
  }
  return out + section("Commands", rows);
}

}  // namespace osb::cli
