#pragma once

#include <string>
#include <string_view>

namespace opensandbox {

// Cuts a stream into lines at LF; a CR in front of it goes too. A line that lies within one piece is not copied.
class LineSplitter {
 public:
  template <typename Sink>
  void feed(std::string_view bytes, Sink&& sink) {
    for (;;) {
      const std::size_t end = bytes.find('\n');
      if (end == std::string_view::npos) break;
      if (pending_.empty()) {
        sink(trimmed(bytes.substr(0, end)));
      } else {
        pending_.append(bytes.substr(0, end));
        sink(trimmed(pending_));
        pending_.clear();
      }
      bytes.remove_prefix(end + 1);
    }
    pending_.append(bytes);
  }

  // A last line without an end.
  template <typename Sink>
  void finish(Sink&& sink) {
    if (!pending_.empty()) sink(trimmed(pending_));
    pending_.clear();
  }

  void clear() { pending_.clear(); }
  std::size_t pending() const { return pending_.size(); }

 private:
  static std::string_view trimmed(std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  std::string pending_;
};

// The JSON of a line of an event stream, with or without "data:" in front; empty for what carries none.
inline std::string_view event_json(std::string_view line) {
  if (line.starts_with("data:")) line.remove_prefix(5);
  while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
  return line.starts_with('{') ? line : std::string_view();
}

// No event is longer: the contract's clients refuse lines above 4 MiB.
inline constexpr std::size_t kLongestLine = 64 * 1024 * 1024;

}  // namespace opensandbox
