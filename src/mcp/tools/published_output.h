#pragma once

#include <cstdint>

#include "mcp/tools/run_output.h"

namespace osb::mcp::tools {

// The published shape: a list of lines with a time stamp each. Keeps lines up to a limit and remembers where it
// stopped.
class PublishedOutput final : public RunOutput {
 public:
  static constexpr std::size_t kMostLines = 10'000;  // of a page: each costs more than its text

  PublishedOutput(Call& call, std::size_t max_bytes) : call_(call), max_bytes_(max_bytes) {}

  void take(const opensandbox::ExecutionEvent& event) override;
  json::object encode(const opensandbox::Execution& execution, const Continue& rest) override;

  bool full() const { return full_; }
  json::object logs() const;
  // Behind the last line that was kept.
  const OutputPosition& next() const { return next_; }
  std::uint64_t skipped() const { return skipped_; }

 private:
  Call& call_;
  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  bool full_ = false;
  OutputPosition next_;
  std::uint64_t skipped_ = 0;  // events that the sandbox no longer has
  json::array stdout_, stderr_, results_;
  json::value error_ = nullptr, complete_ = nullptr, execution_count_ = nullptr;
};

}  // namespace osb::mcp::tools
