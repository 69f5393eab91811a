#include "mcp/kept_output.h"

#include <algorithm>
#include <utility>

namespace osb::mcp {
namespace {

constexpr std::size_t kLineCosts = sizeof(KeptOutput::Line) + 16;

}  // namespace

template <typename Which>
void KeptOutput::forget(Which which) {
  std::erase_if(runs_, [&](const auto& run) {
    if (!which(*run)) return false;
    bytes_ -= run->bytes;
    return true;
  });
}

std::shared_ptr<KeptOutput::Run> KeptOutput::begin(std::string sandbox_id, std::string session_id) {
  auto run = std::make_shared<Run>();
  run->number = ++last_number_;
  run->sandbox_id = std::move(sandbox_id);
  run->session_id = std::move(session_id);
  runs_.push_back(run);
  return run;
}

void KeptOutput::add(Run& run, Line line) {
  const std::size_t cost = line.text.size() + kLineCosts;
  // Forgotten while it still prints, or too much.
  const bool known = std::ranges::any_of(runs_, [&](const auto& each) { return each.get() == &run; });
  if (!known || run.dropped > 0 || run.bytes + cost > kMostBytesOfARun) {
    ++run.dropped;
    return;
  }
  run.bytes += cost;
  bytes_ += cost;
  run.lines.push_back(std::move(line));
  shrink(run);
}

void KeptOutput::finish(const Run& run, bool keep) {
  forget([&](const Run& each) {
    if (!keep) return &each == &run;
    return each.number < run.number && each.sandbox_id == run.sandbox_id && each.session_id == run.session_id;
  });
}

void KeptOutput::shrink(const Run& kept) {
  for (auto it = runs_.begin(); it != runs_.end() && bytes_ > kMostBytes;) {
    if (it->get() == &kept) {
      ++it;
      continue;
    }
    bytes_ -= (*it)->bytes;
    it = runs_.erase(it);
  }
}

std::shared_ptr<const KeptOutput::Run> KeptOutput::find(std::uint64_t number) const {
  const auto found = std::ranges::find_if(runs_, [&](const auto& run) { return run->number == number; });
  return found == runs_.end() ? nullptr : *found;
}

void KeptOutput::forget_session(const std::string& sandbox_id, const std::string& session_id) {
  forget([&](const Run& run) { return run.sandbox_id == sandbox_id && run.session_id == session_id; });
}

void KeptOutput::forget_sandbox(const std::string& sandbox_id) {
  forget([&](const Run& run) { return run.sandbox_id == sandbox_id; });
}

}  // namespace osb::mcp
