#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "mcp/head_tail.h"
#include "mcp/tools/tools.h"

namespace osb::mcp::tools {

// Tells how to get the output that a result leaves out.
struct Continuation {
  std::string cursor;  // empty: there is no way to get it
  std::string advice;  // "command_output(..) returns them"
};
using Continue = std::function<Continuation(const OutputPosition&)>;

// Takes the events of a run, keeps what its result needs and encodes that. Output is passed on as progress.
class RunOutput {
 public:
  virtual ~RunOutput() = default;
  virtual void take(const opensandbox::ExecutionEvent& event) = 0;
  // `rest` is asked once, and only when output was left out.
  virtual json::object encode(const opensandbox::Execution& execution, const Continue& rest) = 0;
};

enum class Runs { Command, Code };
// As published (lists of lines) or plain (strings), as the call wants. The call outlives it.
std::unique_ptr<RunOutput> make_run_output(Call& call, Runs what = Runs::Command);

// Feeds the output, which outlives the run.
sdk::EventSink collect_into(RunOutput& output);
// The same for tools that end themselves: cancelling the call interrupts the run as soon as it has an id, and the
// stream then ends.
sdk::EventSink interruptible(RunOutput& output, Call& call, sdk::Sandbox sandbox, Runs what);

// Events end the stream with this error: the page is full.
opensandbox::Failure page_is_full();

// Bytes of output that the caller wants.
std::size_t max_output_bytes(const Call& call);
// Room for output in a result, besides its other fields.
Room output_room(const Call& call);

// "[... 5000 bytes (1200 lines) left out: <advice> ...]", as a line of its own.
std::string gap_note(std::uint64_t bytes, std::uint64_t lines, std::string_view advice);

// A page of output from a position on, as plain strings.
class PlainPage {
 public:
  PlainPage(Room room, OutputPosition from) : room_(room), next_(from) {}

  // The next line, whole; the page begins inside the first one where `from` says so. False: it is full.
  bool take(std::string_view line, bool is_error, std::uint64_t seq);
  // The line that `from` is in is gone.
  void begin_with_whole_line() { next_.offset = 0; }
  bool full() const { return full_; }
  const OutputPosition& next() const { return next_; }
  // Adds stdout and stderr.
  void encode_into(json::object& out);

 private:
  Room room_;
  OutputPosition next_;
  bool full_ = false, empty_ = true;
  std::string stdout_, stderr_;
};

// Arguments and results that several tools share.
json::object max_output_argument();
json::object timeout_argument();
json::object execution_schema();
json::object output_page_schema(json::object id);

}  // namespace osb::mcp::tools
