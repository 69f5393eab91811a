#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::execd {

// A compiled glob pattern. `*` and `?` stay within a path segment, `**` as a segment of its own spans any number of
// them, `[a-z]`, `[!x]`, `[^x]`, nested `{a,b}`, backslash takes the next character literally. `!(p)` turns the rest
// around: the text matches if `p` and the rest of the pattern do not. A leading dot is nothing special.
//
// Characters are code points; a byte that is not part of valid UTF-8 counts as one character and equals only itself.
//
// Patterns come from strangers: matching takes time and memory in proportion to pattern times text, for any contents,
// and never recurses.
class Glob {
 public:
  // Code::InvalidRequest for an unclosed `[`, `{` or `!(`, an empty class, a `!` without `(`, a backslash at the end,
  // and for patterns above kMaxPattern bytes or nested deeper than kMaxDepth.
  static Result<Glob> compile(std::string_view pattern);

  // Not thread-safe: reuses a buffer between calls.
  bool matches(std::string_view text);

  static constexpr std::size_t kMaxPattern = 4096;
  static constexpr int kMaxDepth = 100;

 private:
  friend class GlobCompiler;

  struct Range {
    char32_t first;
    char32_t last;
  };
  // Steps jump forward only, so one pass from the last step to the first settles every position of the text.
  struct Step {
    enum class Kind : std::uint8_t {
      Character,   // one given character
      AnyOne,      // `?`
      Class,       // ranges_[first, last), possibly negated
      Star,        // any run without '/'
      Segments,    // `**/`: nothing, or any run that ends in '/'
      Everything,  // `**` at the end
      Fork,        // goes on here or at `target`
      Jump,        // goes on at `target`
      Not,         // matches where the following steps do not
    };
    Kind kind;
    bool negated = false;
    char32_t character = 0;
    std::uint32_t target = 0;  // Fork, Jump; for Class: end of its ranges
    std::uint32_t first = 0;   // Class: begin of its ranges
  };

  bool class_contains(const Step& step, char32_t c) const;
  void settle(std::size_t index);

  std::vector<Step> steps_;
  std::vector<Range> ranges_;
  std::vector<char32_t> text_;
  std::vector<std::uint8_t> rows_;  // [step][position]: the rest of the text matches from here
};

}  // namespace osb::execd
