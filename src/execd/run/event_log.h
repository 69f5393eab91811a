#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "execd/run/spill_file.h"

namespace osb::execd {

class EventReader;

// The numbered events of one run, already encoded as they go over the wire (one JSON line and a blank line each).
// Events are numbered from 1 without holes. The newest `ring_bytes` stay in memory, older ones move to a spill file,
// the oldest are forgotten. Any number of readers follow at their own pace; they read the ring's memory directly.
//
// With `hold_for_readers` the log keeps in memory what the foremost reader has not taken yet, and congested() tells the
// producer to stop while that reader is too far behind. So a slow client slows the command down, a client that left
// does not, and of several clients the slowest cannot stop the others.
//
// One thread; readers hold the log by shared_ptr.
class EventLog {
 public:
  struct Options {
    std::size_t ring_bytes = 1024 * 1024;
    std::uint64_t spill_bytes = 64 * 1024 * 1024;  // 0: no file
    std::string spill_directory = "/tmp";
    bool hold_for_readers = false;
  };

  explicit EventLog(Options options) : options_(std::move(options)) {}
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Producing: write one event to where room() points, which has `bound` bytes free, call commit() with the end of what
  // was written, and publish() once after a batch.
  char* room(std::size_t bound);
  void commit(const char* end);
  void publish();
  // No event comes any more; readers end after the last one.
  void close();

  bool closed() const { return closed_; }
  std::uint64_t last_seq() const { return last_seq_; }
  std::uint64_t next_seq() const { return last_seq_ + 1; }

  bool congested() const;
  // Called whenever a reader took something or left and the log is not congested.
  void on_room(std::move_only_function<void()> callback) { on_room_ = std::move(callback); }

  // A log that has forgotten everything but the last event, and is closed: its readers get a gap and then that one.
  // Readers of this one are not disturbed.
  std::shared_ptr<EventLog> last_event_only() const;
  // Gives back memory that was reserved for more events; for closed logs that are kept for a while.
  void shrink();
  std::size_t memory_bytes() const { return memory_; }
  std::uint64_t file_bytes() const { return spill_ ? spill_->file_bytes() : 0; }

 private:
  friend class EventReader;

  // Memory that never moves: readers look at its beginning while more is written behind it.
  struct Block {
    explicit Block(std::size_t room) : data(std::make_unique_for_overwrite<char[]>(room)), capacity(room) {}
    std::string_view bytes() const { return {data.get(), size}; }

    std::unique_ptr<char[]> data;
    std::size_t capacity;
    std::size_t size = 0;
    std::uint64_t first_seq = 0;
    std::uint64_t last_seq = 0;  // first_seq - 1 while empty
    std::uint64_t start = 0;     // how many bytes of events come before it in the whole log
  };
  using BlockPtr = std::shared_ptr<Block>;

  void add_block(std::size_t bound);
  void evict();
  std::uint64_t first_in_memory() const { return blocks_.empty() ? next_seq() : blocks_.front()->first_seq; }
  // The highest number a reader has taken.
  std::uint64_t foremost_seq() const;
  void readers_moved();

  const Options options_;
  std::vector<BlockPtr> blocks_;
  BlockPtr spare_;
  std::unique_ptr<SpillFile> spill_;
  std::vector<EventReader*> readers_;
  std::move_only_function<void()> on_room_;
  std::uint64_t last_seq_ = 0;
  std::uint64_t end_ = 0;    // bytes of all events ever
  std::size_t memory_ = 0;   // capacity of all blocks
  std::size_t in_ring_ = 0;  // bytes of events in all blocks
  bool closed_ = false;
};

// One reader's place in a log.
class EventReader {
 public:
  // Starts behind event number `after`. `wake` is called (inside publish() or close()) when there is something new for
  // a reader whose next() returned nothing.
  EventReader(std::shared_ptr<EventLog> log, std::uint64_t after, std::move_only_function<void()> wake);
  ~EventReader();
  EventReader(const EventReader&) = delete;
  EventReader& operator=(const EventReader&) = delete;

  // The next events, whole ones, at most a few hundred KiB (one event may be larger); empty if there is nothing now.
  // The views live until the next call, which also counts them as taken. Where events are gone there is one
  // {"type":"gap","from":a,"to":b,"seq":b} in their place.
  std::span<const std::string_view> next();
  // True once everything has been returned by next() and the log is closed.
  bool at_end() const { return log_->closed() && next_seq_ > log_->last_seq(); }

 private:
  friend class EventLog;

  void read_memory();
  void read_spill();
  void report_gap(std::uint64_t to);

  std::shared_ptr<EventLog> log_;
  std::move_only_function<void()> wake_;
  std::uint64_t taken_seq_;        // the last event of earlier batches
  std::uint64_t taken_bytes_ = 0;  // where that is in the whole log; valid while in memory
  std::uint64_t next_seq_;         // the first event of the next batch
  std::uint64_t next_bytes_ = 0;
  bool waiting_ = false;
  std::vector<EventLog::BlockPtr> held_;  // what views_ points into
  std::string buffer_;                    // the same, for spilled blocks and gaps
  std::vector<std::string_view> views_;
};

}  // namespace osb::execd
