#include "execd/run/event_log.h"

#include <algorithm>

#include "base/concat.h"
#include "base/time.h"

namespace osb::execd {
namespace {

constexpr std::size_t kFirstBlock = 256;  // init and the final event of a silent command
constexpr std::size_t kFullBlock = 64 * 1024;
constexpr std::size_t kBatchBytes = 256 * 1024;
constexpr std::size_t kBatchPieces = 16;

// The part of `events` behind its first `count` events. Encoded events hold no LF of their own.
std::string_view skip_events(std::string_view events, std::uint64_t count) {
  for (; count > 0; --count) events.remove_prefix(events.find("\n\n") + 2);
  return events;
}

}  // namespace

void EventLog::add_block(std::size_t bound) {
  const std::size_t usual = blocks_.empty() ? kFirstBlock : std::min(kFullBlock, blocks_.back()->capacity * 4);
  BlockPtr block = spare_ && bound <= kFullBlock ? std::move(spare_) : std::make_shared<Block>(std::max(usual, bound));
  block->size = 0;
  block->first_seq = next_seq();
  block->last_seq = last_seq_;
  block->start = end_;
  memory_ += block->capacity;
  blocks_.push_back(std::move(block));
}

char* EventLog::room(std::size_t bound) {
  if (blocks_.empty() || blocks_.back()->capacity - blocks_.back()->size < bound) add_block(bound);
  return blocks_.back()->data.get() + blocks_.back()->size;
}

void EventLog::commit(const char* end) {
  Block& block = *blocks_.back();
  const std::size_t written = static_cast<std::size_t>(end - block.data.get()) - block.size;
  block.last_seq = ++last_seq_;
  block.size += written;
  in_ring_ += written;
  end_ += written;
}

void EventLog::publish() {
  evict();
  for (EventReader* reader : readers_) {
    if (std::exchange(reader->waiting_, false)) reader->wake_();
  }
}

void EventLog::close() {
  closed_ = true;
  publish();
}

std::uint64_t EventLog::foremost_seq() const {
  std::uint64_t foremost = 0;
  for (const EventReader* reader : readers_) foremost = std::max(foremost, reader->taken_seq_);
  return foremost;
}

bool EventLog::congested() const {
  if (!options_.hold_for_readers || readers_.empty()) return false;
  std::uint64_t position = 0;
  for (const EventReader* reader : readers_) {
    if (reader->taken_seq_ + 1 >= first_in_memory()) position = std::max(position, reader->taken_bytes_);
  }
  return end_ - position > options_.ring_bytes / 2;
}

void EventLog::evict() {
  if (in_ring_ <= options_.ring_bytes) return;
  const bool hold = options_.hold_for_readers && !readers_.empty();
  const std::uint64_t taken = hold ? foremost_seq() : last_seq_;
  std::size_t gone = 0;
  while (gone + 1 < blocks_.size() && in_ring_ > options_.ring_bytes && blocks_[gone]->last_seq <= taken) {
    BlockPtr& block = blocks_[gone++];
    in_ring_ -= block->size;
    memory_ -= block->capacity;
    if (options_.spill_bytes > 0) {
      if (!spill_) spill_ = std::make_unique<SpillFile>(options_.spill_directory, options_.spill_bytes);
      spill_->write(block->first_seq, block->last_seq, block->bytes());
    }
    if (block.use_count() == 1 && block->capacity == kFullBlock) spare_ = std::move(block);
  }
  blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(gone));
}

void EventLog::readers_moved() {
  evict();
  if (on_room_ && !congested()) on_room_();
}

std::shared_ptr<EventLog> EventLog::last_event_only() const {
  auto log = std::make_shared<EventLog>(options_);
  log->last_seq_ = last_seq_;
  log->end_ = end_;
  log->closed_ = true;
  if (blocks_.empty()) return log;
  const Block& tail = *blocks_.back();
  const std::string_view event = skip_events(tail.bytes(), last_seq_ - tail.first_seq);
  auto last = std::make_shared<Block>(event.size());
  last->size = event.copy(last->data.get(), event.size());
  last->first_seq = last->last_seq = last_seq_;
  last->start = end_ - last->size;
  log->in_ring_ = log->memory_ = last->size;
  log->blocks_.push_back(std::move(last));
  return log;
}

void EventLog::shrink() {
  spare_.reset();
  if (blocks_.empty()) return;
  BlockPtr& tail = blocks_.back();
  if (tail->capacity < 2 * tail->size + kFirstBlock) return;
  auto copy = std::make_shared<Block>(tail->size);  // readers may hold the old one
  copy->size = tail->bytes().copy(copy->data.get(), tail->size);
  copy->first_seq = tail->first_seq;
  copy->last_seq = tail->last_seq;
  copy->start = tail->start;
  memory_ -= tail->capacity - copy->capacity;
  tail = std::move(copy);
}

EventReader::EventReader(std::shared_ptr<EventLog> log, std::uint64_t after, std::move_only_function<void()> wake)
    : log_(std::move(log)),
      wake_(std::move(wake)),
      taken_seq_(std::min(after, log_->last_seq())),
      next_seq_(taken_seq_ + 1) {
  if (next_seq_ >= log_->first_in_memory()) {
    next_bytes_ = log_->end_;
    for (const auto& block : log_->blocks_) {
      if (next_seq_ < block->first_seq || next_seq_ > block->last_seq) continue;
      const std::string_view rest = skip_events(block->bytes(), next_seq_ - block->first_seq);
      next_bytes_ = block->start + block->size - rest.size();
    }
    taken_bytes_ = next_bytes_;
  }
  log_->readers_.push_back(this);
}

EventReader::~EventReader() {
  std::erase(log_->readers_, this);
  log_->readers_moved();
}

std::span<const std::string_view> EventReader::next() {
  const bool moved = taken_seq_ + 1 != next_seq_;
  taken_seq_ = next_seq_ - 1;
  taken_bytes_ = next_bytes_;
  held_.clear();
  views_.clear();
  if (next_seq_ <= log_->last_seq()) {
    if (next_seq_ >= log_->first_in_memory()) {
      read_memory();
    } else {
      read_spill();
    }
  }
  waiting_ = views_.empty();
  // Last, because it may let the producer run, which may evict what has just been picked up.
  if (moved) log_->readers_moved();
  return views_;
}

void EventReader::read_memory() {
  const auto& blocks = log_->blocks_;
  auto it = std::ranges::lower_bound(blocks, next_seq_, {}, [](const auto& block) { return block->last_seq; });
  std::size_t total = 0;
  for (; it != blocks.end() && total < kBatchBytes && views_.size() < kBatchPieces; ++it) {
    const EventLog::Block& block = **it;
    const std::size_t from = next_bytes_ - block.start;
    views_.push_back(block.bytes().substr(from));
    held_.push_back(*it);
    total += views_.back().size();
    next_bytes_ = block.start + block.size;
    next_seq_ = block.last_seq + 1;
  }
}

void EventReader::read_spill() {
  const SpillFile::Block* block = log_->spill_ ? log_->spill_->find(next_seq_) : nullptr;
  if (block == nullptr || block->first_seq > next_seq_) {
    return report_gap((block != nullptr ? block->first_seq : log_->first_in_memory()) - 1);
  }
  if (!log_->spill_->read(*block, buffer_)) return report_gap(block->last_seq);
  views_.push_back(skip_events(buffer_, next_seq_ - block->first_seq));
  next_seq_ = block->last_seq + 1;
  if (next_seq_ == log_->first_in_memory() && !log_->blocks_.empty()) next_bytes_ = log_->blocks_.front()->start;
}

void EventReader::report_gap(std::uint64_t to) {
  buffer_ = concat(R"({"type":"gap","from":)", next_seq_, R"(,"to":)", to, R"(,"timestamp":)", unix_millis(),
                   R"(,"seq":)", to, "}\n\n");
  views_.push_back(buffer_);
  next_seq_ = to + 1;
  if (next_seq_ == log_->first_in_memory() && !log_->blocks_.empty()) next_bytes_ = log_->blocks_.front()->start;
}

}  // namespace osb::execd
