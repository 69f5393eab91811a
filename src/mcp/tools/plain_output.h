#pragma once

#include "mcp/tools/run_output.h"

namespace osb::mcp::tools {

// Output as models read it: stdout and stderr as strings, begin and end of long ones, with a note of what is left out.
class PlainOutput final : public RunOutput {
 public:
  PlainOutput(Call& call, Runs what, Room room)
      : call_(call), what_(what), room_(room), stdout_(room.bytes), stderr_(room.bytes) {}

  void take(const opensandbox::ExecutionEvent& event) override;
  json::object encode(const opensandbox::Execution& execution, const Continue& rest) override;

 private:
  void take_error(const opensandbox::ExecutionEvent& event);
  void take_results(const opensandbox::ExecutionEvent& event);
  void encode_output(json::object& out, const Continue& rest);

  Call& call_;
  const Runs what_;
  Room room_;
  HeadTail stdout_, stderr_;
  std::uint64_t lines_ = 0;
  std::uint64_t skipped_ = 0;  // events that the sandbox no longer has
  std::int64_t begin_ = 0, end_ = 0;
  std::string error_;  // of a run without an exit code
  json::array results_;
  json::object other_results_;  // MIME type -> bytes
};

}  // namespace osb::mcp::tools
