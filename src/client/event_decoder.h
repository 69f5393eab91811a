#pragma once

#include <opensandbox/commands.h>
#include <optional>
#include <string_view>
#include <vector>

#include "base/line_splitter.h"
#include "client/event_line.h"

namespace opensandbox {

// Bytes of an event stream into events. Pings, comments and lines that carry no JSON are dropped; a bare
// {"code","message"} is an error event.
class EventDecoder {
 public:
  explicit EventDecoder(bool keep_json) : keep_json_(keep_json) {}

  // Appends what is complete.
  void feed(std::string_view bytes, std::vector<ExecutionEvent>& out);
  // A last line without an end.
  void finish(std::vector<ExecutionEvent>& out);
  // The stream begins anew.
  void clear() {
    lines_.finish([](std::string_view) {});
  }
  bool too_long() const { return lines_.pending() > kLongestLine; }

 private:
  void line(std::string_view text, std::vector<ExecutionEvent>& out) const;

  bool keep_json_;
  osb::LineSplitter lines_;
};

// Adds an event to what the run has given so far. `keep_output` false: everything but lines and results.
void accumulate(Execution& execution, const ExecutionEvent& event, bool keep_output);

}  // namespace opensandbox
