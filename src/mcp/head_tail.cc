#include "mcp/head_tail.h"

#include <algorithm>

namespace osb::mcp {

void HeadTail::append(std::string_view line, std::uint64_t number, std::uint64_t seq, std::string_view end) {
  bytes_ += line.size() + end.size();
  cost_ += reply_cost(line) + reply_cost(end);
  lines_ += static_cast<std::uint64_t>(std::ranges::count(line, '\n') + std::ranges::count(end, '\n'));
  if (head_.size() < keep_) {
    head_.append(line.substr(0, keep_)).append(end);
    marks_.push_back({head_.size(), number, seq});
  }
  // Never more of a line than is kept of it.
  const std::string_view rest = line.size() > keep_ ? line.substr(line.size() - keep_) : line;
  if (tail_.size() + rest.size() + end.size() > 2 * keep_) {
    const std::size_t old = std::min(tail_.size(), keep_ - std::min(keep_, rest.size() + end.size()));
    tail_.erase(0, tail_.size() - old);
  }
  tail_.append(rest).append(end);
}

OutputPosition HeadTail::position(std::size_t offset) const {
  const auto mark = std::ranges::upper_bound(marks_, offset, {}, &Mark::end);  // the line that `offset` is in
  const std::size_t begin = mark == marks_.begin() ? 0 : std::prev(mark)->end;
  if (offset == begin && mark != marks_.begin()) return {std::prev(mark)->number + 1, std::prev(mark)->seq, 0};
  if (mark == marks_.end()) return {};
  return {mark->number, mark->seq > 0 ? mark->seq - 1 : 0, offset - begin};
}

HeadTail::Part HeadTail::fit(Room room) const {
  Part out;
  if (bytes_ <= room.bytes && cost_ <= room.cost && bytes_ <= keep_) {
    out.head = head_;
    return out;
  }
  out.head = head_.substr(0, fitting_lines_prefix(head_, room.half()));
  // Only what the head does not have.
  const std::uint64_t rest = bytes_ - out.head.size();
  const std::string_view tail = std::string_view(tail_).substr(rest < tail_.size() ? tail_.size() - rest : 0);
  out.tail = tail.substr(tail.size() - fitting_lines_suffix(tail, room.half()));
  out.left_out_bytes = rest - out.tail.size();
  const auto lines = [](std::string_view text) { return static_cast<std::uint64_t>(std::ranges::count(text, '\n')); };
  out.left_out_lines = lines_ - lines(out.head) - lines(out.tail);
  out.next = position(out.head.size());
  return out;
}

std::pair<std::size_t, std::size_t> share(std::uint64_t first, std::uint64_t second, std::size_t room) {
  if (first + second <= room) return {static_cast<std::size_t>(first), static_cast<std::size_t>(second)};
  const std::size_t half = room / 2;
  if (first <= half) return {static_cast<std::size_t>(first), room - static_cast<std::size_t>(first)};
  if (second <= half) return {room - static_cast<std::size_t>(second), static_cast<std::size_t>(second)};
  return {room - half, half};
}

}  // namespace osb::mcp
