#pragma once

#include <memory>
#include <string>

namespace osb::cli {

// Lines that a person types and edits, with a history: libedit on the terminal of standard input and output.
class LineEditor {
 public:
  enum class Event { Line, Interrupted, End };  // End: Ctrl-D in an empty line, or the terminal is gone

  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The line is without its end.
  Event read(const std::string& prompt, std::string& line);
  void remember(const std::string& line);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace osb::cli
