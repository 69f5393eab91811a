#include "execd/file/listing/glob.h"

#include <algorithm>
#include <string>

#include "base/utf8.h"

namespace osb::execd {
namespace {

// Code points, with bytes that are no UTF-8 mapped behind the last one so that they equal only themselves.
void decode(std::string_view text, std::vector<char32_t>& out) {
  out.clear();
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const char32_t lead = static_cast<unsigned char>(*p);
    const std::size_t length = utf8_sequence_length(p, end);
    if (length <= 1) {
      out.push_back(length == 1 ? lead : 0x110000 + lead);
      ++p;
      continue;
    }
    char32_t c = lead & (0x7Fu >> length);
    for (std::size_t k = 1; k < length; ++k) c = c << 6 | (static_cast<unsigned char>(p[k]) & 0x3Fu);
    out.push_back(c);
    p += length;
  }
}

}  // namespace

// A recursive descent over the pattern that emits steps in order; forward targets are patched when they are known.
class GlobCompiler {
 public:
  explicit GlobCompiler(std::string_view pattern) { decode(pattern, in_); }

  Result<Glob> run() {
    if (auto ok = sequence(0, Context::Top); !ok) return Failure(ok.error());
    return std::move(glob_);
  }

 private:
  using Step = Glob::Step;
  using Kind = Glob::Step::Kind;
  enum class Context { Top, Braces, Inverted };

  static Failure bad(const char* why) { return fail(Code::InvalidRequest, std::string("pattern: ") + why); }

  Step& emit(Kind kind) {
    glob_.steps_.push_back(Step{.kind = kind});
    return glob_.steps_.back();
  }
  std::uint32_t here() const { return static_cast<std::uint32_t>(glob_.steps_.size()); }
  bool more() const { return at_ < in_.size(); }

  // Up to the end of the pattern, or to (not over) the character that ends this context.
  Result<void> sequence(int depth, Context context) {
    if (depth > Glob::kMaxDepth) return bad("nested too deeply");
    bool segment_start = at_ == 0 || in_[at_ - 1] == '/' || (depth > 0 && segment_start_);
    while (more()) {
      const char32_t c = in_[at_];
      if (context == Context::Braces && (c == ',' || c == '}')) return {};
      if (context == Context::Inverted && c == ')') return {};
      ++at_;
      segment_start_ = segment_start;
      if (auto ok = one(c, depth, segment_start); !ok) return ok;
      segment_start = c == '/' || (segment_start && in_[at_ - 1] == '/');
    }
    return {};
  }

  Result<void> one(char32_t c, int depth, bool segment_start) {
    switch (c) {
      case '*':
        star(segment_start);
        return {};
      case '?':
        emit(Kind::AnyOne);
        return {};
      case '[':
        return character_class();
      case '{':
        return braces(depth);
      case '!':
        return inverted(depth);
      case '\\':
        if (!more()) return bad("ends in a backslash");
        c = in_[at_++];
        [[fallthrough]];
      default:
        emit(Kind::Character).character = c;
        return {};
    }
  }

  void star(bool segment_start) {
    std::size_t stars = 1;
    for (; more() && in_[at_] == '*'; ++at_) ++stars;
    const bool whole_segment = segment_start && stars > 1;
    if (whole_segment && more() && in_[at_] == '/') {
      ++at_;
      emit(Kind::Segments);
    } else if (whole_segment && !more()) {
      emit(Kind::Everything);
    } else {
      emit(Kind::Star);
    }
  }

  Result<char32_t> class_member() {
    char32_t c = in_[at_++];
    if (c == '\\') {
      if (!more()) return bad("ends in a backslash");
      c = in_[at_++];
    }
    return c;
  }

  Result<void> character_class() {
    Step step{.kind = Kind::Class};
    step.first = static_cast<std::uint32_t>(glob_.ranges_.size());
    if (more() && (in_[at_] == '!' || in_[at_] == '^')) {
      step.negated = true;
      ++at_;
    }
    while (more() && in_[at_] != ']') {
      auto first = class_member();
      if (!first) return Failure(first.error());
      auto last = first;
      if (at_ + 1 < in_.size() && in_[at_] == '-' && in_[at_ + 1] != ']') {
        ++at_;
        last = class_member();
        if (!last) return Failure(last.error());
      }
      glob_.ranges_.push_back({*first, *last});
    }
    if (!more()) return bad("a '[' is not closed");
    ++at_;
    step.target = static_cast<std::uint32_t>(glob_.ranges_.size());
    if (step.first == step.target) return bad("an empty character class");
    glob_.steps_.push_back(step);
    return {};
  }

  Result<void> braces(int depth) {
    std::vector<std::uint32_t> ends;
    for (;;) {
      const std::uint32_t fork = here();
      emit(Kind::Fork);
      if (auto ok = sequence(depth + 1, Context::Braces); !ok) return ok;
      if (!more()) return bad("a '{' is not closed");
      const bool last = in_[at_++] == '}';
      if (last) {
        // The last alternative has no other one to fork to.
        glob_.steps_[fork].kind = Kind::Jump;
        glob_.steps_[fork].target = fork + 1;
        break;
      }
      ends.push_back(here());
      emit(Kind::Jump);
      glob_.steps_[fork].target = here();
    }
    for (const std::uint32_t end : ends) glob_.steps_[end].target = here();
    return {};
  }

  Result<void> inverted(int depth) {
    if (!more() || in_[at_] != '(') return bad("a '!' needs '(' behind it");
    ++at_;
    emit(Kind::Not);
    if (auto ok = sequence(depth + 1, Context::Inverted); !ok) return ok;
    if (!more()) return bad("a '!(' is not closed");
    ++at_;
    return {};
  }

  std::vector<char32_t> in_;
  std::size_t at_ = 0;
  bool segment_start_ = true;  // where the construct being compiled began
  Glob glob_;
};

Result<Glob> Glob::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) return fail(Code::InvalidRequest, "pattern: longer than 4096 bytes");
  return GlobCompiler(pattern).run();
}

bool Glob::class_contains(const Step& step, char32_t c) const {
  const auto inside = [c](const Range& range) { return range.first <= c && c <= range.last; };
  const bool found = std::any_of(ranges_.begin() + step.first, ranges_.begin() + step.target, inside);
  return found != step.negated;
}

// Fills the row of one step from the rows behind it.
void Glob::settle(std::size_t index) {
  const Step& step = steps_[index];
  const std::size_t width = text_.size() + 1;
  std::uint8_t* row = &rows_[index * width];
  const std::uint8_t* next = row + width;
  const std::uint8_t* target = &rows_[0];
  if (step.kind == Step::Kind::Fork || step.kind == Step::Kind::Jump) target = &rows_[step.target * width];
  bool reachable = false;  // Segments: some position further on, right behind a '/', matches
  for (std::size_t i = width; i-- > 0;) {
    const bool end = i == text_.size();
    const bool inside = !end && text_[i] != '/';
    switch (step.kind) {
      case Step::Kind::Character:
        row[i] = !end && text_[i] == step.character && next[i + 1];
        break;
      case Step::Kind::AnyOne:
        row[i] = inside && next[i + 1];
        break;
      case Step::Kind::Class:
        row[i] = inside && next[i + 1] && class_contains(step, text_[i]);
        break;
      case Step::Kind::Star:
        row[i] = next[i] || (inside && row[i + 1]);
        break;
      case Step::Kind::Segments:
        if (!end && text_[i] == '/' && next[i + 1]) reachable = true;
        row[i] = next[i] || reachable;
        break;
      case Step::Kind::Everything:
        row[i] = next[text_.size()];
        break;
      case Step::Kind::Fork:
        row[i] = next[i] || target[i];
        break;
      case Step::Kind::Jump:
        row[i] = target[i];
        break;
      case Step::Kind::Not:
        row[i] = !next[i];
        break;
    }
  }
}

bool Glob::matches(std::string_view text) {
  decode(text, text_);
  const std::size_t width = text_.size() + 1;
  rows_.resize((steps_.size() + 1) * width);
  // Behind the last step only the end of the text matches.
  std::fill_n(rows_.begin() + steps_.size() * width, width, 0);
  rows_[steps_.size() * width + text_.size()] = 1;
  for (std::size_t step = steps_.size(); step-- > 0;) settle(step);
  return rows_[0] != 0;
}

}  // namespace osb::execd
