#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "mcp/tools/tools.h"

namespace osb::mcp::tools {

// Keeps the output of a run up to a limit and remembers where it stopped, so that the rest can be fetched page by page.
// Everything is passed on as progress.
class OutputCollector {
 public:
  static constexpr std::int64_t kDefaultBytes = 65'536;
  static constexpr std::int64_t kMostBytes = 4'194'304;
  static constexpr std::size_t kMostLines = 10'000;  // of a page: each costs more than its text

  using Overflow = std::function<void(const opensandbox::ExecutionEvent&)>;

  // The call and the collector outlive the run. `overflow` gets the lines beyond the limit.
  OutputCollector(Call& call, std::int64_t max_bytes, Overflow overflow = {})
      : call_(call), max_bytes_(static_cast<std::size_t>(max_bytes)), overflow_(std::move(overflow)) {}

  void take(const opensandbox::ExecutionEvent& event);
  bool full() const { return full_; }

  // The parts of an execution that the contract names, with `truncated` and `next_cursor` added.
  json::object encode(const opensandbox::Execution& execution) const;
  json::object logs() const;
  // Behind the last line that was kept; null when nothing is missing.
  json::value next_cursor() const;
  std::uint64_t skipped() const { return skipped_; }
  const std::string& id() const { return id_; }

 private:
  Call& call_;
  std::size_t max_bytes_;
  const Overflow overflow_;
  std::size_t bytes_ = 0;
  std::size_t lines_ = 0;
  bool full_ = false;
  std::uint64_t last_seq_ = 0;  // of the last line that was kept
  std::uint64_t skipped_ = 0;   // events that the sandbox no longer has
  std::string id_;
  json::array stdout_, stderr_, results_;
  json::value error_ = nullptr, complete_ = nullptr, execution_count_ = nullptr;
};

// Feeds the collector, which outlives the run.
sdk::EventSink collect_into(OutputCollector& collector);
// The same for tools that end themselves: cancelling the call interrupts what runs, as soon as it has an id, and the
// stream then ends with it.
enum class Runs { Command, Code };
sdk::EventSink interruptible(OutputCollector& collector, Call& call, sdk::Sandbox sandbox, Runs what);

json::object max_output_argument();
json::object timeout_argument();
json::object execution_schema();
json::object logs_schema();
json::object output_page_schema(json::object id);

}  // namespace osb::mcp::tools
