#include "execd/run/oom_score.h"

#include <algorithm>
#include <string>

#include "base/parse_number.h"
#include "sys/text_file.h"

namespace osb::execd {
namespace {

constexpr const char* kFile = "/proc/self/oom_score_adj";
constexpr int kStep = 100, kMost = 1000;

std::optional<int> find() {
  auto text = sys::read_text(kFile);
  if (!text) return std::nullopt;
  while (text->ends_with('\n')) text->pop_back();
  const auto own = parse_number<int>(*text);
  // A command that may not set it would not start.
  if (!own || *own >= kMost || !sys::write_text(kFile, *text)) return std::nullopt;
  return std::min(*own + kStep, kMost);
}

}  // namespace

std::optional<int> command_oom_score() {
  static const std::optional<int> score = find();
  return score;
}

}  // namespace osb::execd
