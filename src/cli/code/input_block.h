#pragma once

#include <string>
#include <string_view>

namespace osb::cli {

// Lines that a person types, until they are a whole piece of code: brackets, strings and blocks are closed. The guess
// need not be perfect: two empty lines end any piece.
class InputBlock {
 public:
  explicit InputBlock(std::string_view language);

  // True: text() is a whole piece.
  bool add(std::string_view line);
  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  void clear();

 private:
  void scan(std::string_view line);
  void count_words(std::string_view line);

  const bool python_, shell_;
  std::string text_;
  int depth_ = 0;          // of brackets; in a shell of if, case, do and {
  std::string quote_;      // that closes the open string: ", ', `, three of them in Python; */ of a comment
  bool indented_ = false;  // a block of Python, which an empty line ends
  bool continued_ = false;
  int empty_lines_ = 0;
};

}  // namespace osb::cli
