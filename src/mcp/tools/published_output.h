#pragma once

#include <cstdint>

#include "mcp/tools/run_output.h"

namespace osb::mcp::tools {

// The published shape: a list of lines with a time stamp each. Keeps lines up to a limit and remembers where it
// stopped.
class PublishedOutput final : public RunOutput {
 public:
  // Begins inside the first line where `from` says so.
  explicit PublishedOutput(Call& call, OutputPosition from = {});

  void take(const opensandbox::ExecutionEvent& event) override;
  // The next line. False: the page is full.
  bool add(std::string_view text, std::int64_t timestamp, bool is_error, std::uint64_t seq);
  json::object encode(const opensandbox::Execution& execution, const Continue& rest) override;

  bool full() const { return full_; }
  json::object logs() const;
  // Behind the last line that was kept.
  const OutputPosition& next() const { return next_; }
  std::uint64_t skipped() const { return skipped_; }

 private:
  Call& call_;
  Room room_;
  bool empty_ = true;
  bool full_ = false;
  OutputPosition next_;
  std::uint64_t skipped_ = 0;  // events that the sandbox no longer has
  json::array stdout_, stderr_, results_;
  json::value error_ = nullptr, complete_ = nullptr, execution_count_ = nullptr;
};

}  // namespace osb::mcp::tools
