#include "cli/code/input_block.h"

#include <algorithm>
#include <cctype>

namespace osb::cli {
namespace {

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }

}  // namespace

InputBlock::InputBlock(std::string_view language) : python_(language == "python"), shell_(language == "bash") {}

void InputBlock::clear() {
  text_.clear();
  quote_.clear();
  depth_ = empty_lines_ = 0;
  indented_ = continued_ = false;
}

bool InputBlock::add(std::string_view line) {
  text_.append(line).append("\n");
  empty_lines_ = is_blank(line) ? empty_lines_ + 1 : 0;
  if (empty_lines_ >= 2) return true;
  scan(line);
  if (!quote_.empty() || depth_ > 0 || continued_) return false;
  return !indented_ || empty_lines_ > 0;
}

void InputBlock::scan(std::string_view line) {
  char last = 0;  // of the code in this line
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    const std::string_view rest = line.substr(at);
    if (!quote_.empty()) {
      if (c == '\\' && quote_ != "*/") {
        ++at;
      } else if (rest.starts_with(quote_)) {
        at += quote_.size() - 1;
        quote_.clear();
        last = '"';
      }
    } else if ((c == '#' && (python_ || (shell_ && (at == 0 || line[at - 1] == ' ')))) ||
               (!python_ && !shell_ && rest.starts_with("//"))) {
      break;
    } else if (!python_ && !shell_ && rest.starts_with("/*")) {
      quote_ = "*/";
      ++at;
    } else if (c == '\\') {
      ++at;
    } else if (c == '"' || c == '\'' || (c == '`' && !python_)) {
      quote_ = std::string(python_ && rest.starts_with(std::string(3, c)) ? 3 : 1, c);
      at += quote_.size() - 1;
    } else {
      if (!shell_ && (c == '(' || c == '[' || c == '{')) ++depth_;
      if (!shell_ && (c == ')' || c == ']' || c == '}')) --depth_;
      if (std::isspace(static_cast<unsigned char>(c)) == 0) last = c;
    }
  }
  continued_ = line.ends_with('\\');
  // A string of one line ends with it, or is an error that the language explains. A shell's string goes on.
  if (quote_.size() == 1 && !shell_ && quote_ != "`" && !continued_) quote_.clear();
  if (python_ && depth_ == 0 && (last == ':' || line.starts_with('@'))) indented_ = true;
  if (shell_ && quote_.empty()) count_words(line);
}

void InputBlock::count_words(std::string_view line) {
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = line.find_first_not_of(" \t;&|()", at);
    if (begin == std::string_view::npos || line[begin] == '#') return;
    at = std::min(line.find_first_of(" \t;&|()", begin), line.size());
    const std::string_view word = line.substr(begin, at - begin);
    if (word == "if" || word == "case" || word == "do" || word == "{") ++depth_;
    if (word == "fi" || word == "esac" || word == "done" || word == "}") --depth_;
  }
}

}  // namespace osb::cli
