#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace osb {

// The longest prefix of `text`, at most `limit` bytes, that does not end inside a UTF-8 sequence. Where the bytes are
// no UTF-8 at all it is simply `limit`.
inline std::size_t utf8_prefix(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text.size();
  const auto continues = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
  for (std::size_t cut = limit; cut > 0 && limit - cut <= 3; --cut) {
    if (!continues(cut)) return cut;
  }
  return limit;
}

// Cuts a byte stream into lines. LF, CR and CRLF end a line (a CRLF split across two reads is one end) and are removed;
// an empty line is reported as an empty view; what follows the last end stays here until finish(). A line longer than
// `max_line` is reported in pieces, so memory is bounded by that. Lines that lie within one feed() are views into it:
// nothing is copied on that path.
class LineSplitter {
 public:
  explicit LineSplitter(std::size_t max_line = SIZE_MAX) : max_line_(std::max<std::size_t>(max_line, 8)) {}

  // Calls sink(std::string_view) for every line that ended. The view lives until the sink returns.
  template <typename Sink>
  void feed(std::string_view bytes, Sink&& sink) {
    if (skip_lf_ && !bytes.empty()) {
      skip_lf_ = false;
      if (bytes.front() == '\n') bytes.remove_prefix(1);
    }
    if (skipping_) {
      const std::size_t stop = bytes.find_first_of("\r\n");
      if (stop == std::string_view::npos) return;
      skipping_ = false;
      skip_lf_ = bytes[stop] == '\r';
      return feed(bytes.substr(stop + 1), sink);
    }
    const char* at = bytes.data();
    const char* const end = at + bytes.size();
    // The next CR is looked for once and remembered, so text without any is scanned by one memchr per line.
    const char* cr = find(at, end, '\r');
    while (at != end) {
      const char* stop = find(at, cr, '\n');
      if (stop == end) return hold({at, end}, sink);
      end_line({at, stop}, sink);
      at = stop + 1;
      if (stop != cr) continue;
      if (at == end) {
        skip_lf_ = true;
      } else if (*at == '\n') {
        ++at;
      }
      cr = find(at, end, '\r');
    }
  }

  // Reports an unterminated last line. The splitter is empty afterwards.
  template <typename Sink>
  void finish(Sink&& sink) {
    if (!pending_.empty()) sink(std::string_view(pending_));
    pending_ = std::string();
    skip_lf_ = skipping_ = false;
  }

  // Of the line that has not ended yet.
  std::size_t pending() const { return pending_.size(); }
  // Drops that line, to its end.
  void skip_line() {
    pending_ = std::string();
    skipping_ = true;
  }

 private:
  static constexpr std::size_t kKeepCapacity = 64 * 1024;

  static const char* find(const char* from, const char* to, char wanted) {
    if (from == to) return to;
    const void* found = std::memchr(from, wanted, static_cast<std::size_t>(to - from));
    return found != nullptr ? static_cast<const char*>(found) : to;
  }

  template <typename Sink>
  void end_line(std::string_view rest, Sink& sink) {
    if (pending_.empty() && rest.size() <= max_line_) {
      sink(rest);
    } else {
      hold(rest, sink);
      sink(std::string_view(pending_));
      pending_.clear();
      if (pending_.capacity() > kKeepCapacity) pending_ = std::string();
    }
  }

  // Keeps at least the last byte, so the end of a line that went out in pieces never looks like one more, empty line.
  template <typename Sink>
  void hold(std::string_view part, Sink& sink) {
    while (pending_.size() + part.size() > max_line_) {
      if (pending_.empty()) {
        const std::size_t cut = utf8_prefix(part, max_line_);
        sink(part.substr(0, cut));
        part.remove_prefix(cut);
      } else {
        // One byte more than fits decides whether the cut is between two characters.
        const std::size_t take = max_line_ + 1 - pending_.size();
        pending_.append(part.substr(0, take));
        part.remove_prefix(take);
        const std::size_t cut = utf8_prefix(pending_, max_line_);
        sink(std::string_view(pending_).substr(0, cut));
        pending_.erase(0, cut);
      }
    }
    pending_.append(part);
  }

  const std::size_t max_line_;
  std::string pending_;   // the unterminated line so far
  bool skip_lf_ = false;  // the last byte was a CR: an LF right behind it belongs to it
  bool skipping_ = false;
};

}  // namespace osb
