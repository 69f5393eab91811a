#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace osb::mcp {

// Output of runs in shell sessions. Sandboxes keep the output of commands, not that of sessions, so it is kept here: of
// each session the last run whose result left something out, and of all together the latest kMostBytes. On the loop.
class KeptOutput {
 public:
  static constexpr std::size_t kMostBytesOfARun = 8 << 20;
  static constexpr std::size_t kMostBytes = 64 << 20;

  struct Line {
    std::string text;
    std::int64_t timestamp = 0;
    bool is_error = false;
  };
  struct Run {
    std::uint64_t number = 0;  // unlike that of any other
    std::string sandbox_id, session_id;
    std::vector<Line> lines;
    std::size_t bytes = 0;
    std::uint64_t dropped = 0;  // lines behind these that were too many
  };

  std::shared_ptr<Run> begin(std::string sandbox_id, std::string session_id);
  void add(Run& run, Line line);
  // The run has ended. With `keep` it replaces the run that its session had, else it is forgotten.
  void finish(const Run& run, bool keep);
  // Null: not known, or forgotten.
  std::shared_ptr<const Run> find(std::uint64_t number) const;
  void forget_session(const std::string& sandbox_id, const std::string& session_id);
  void forget_sandbox(const std::string& sandbox_id);

 private:
  template <typename Which>
  void forget(Which which);
  void shrink(const Run& kept);

  std::list<std::shared_ptr<Run>> runs_;  // the oldest first
  std::size_t bytes_ = 0;
  std::uint64_t last_number_ = 0;
};

}  // namespace osb::mcp
