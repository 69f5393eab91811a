#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>

#include "async/net.h"
#include "async/timer.h"
#include "base/error.h"
#include "execd/file/file_pool.h"

namespace osb::execd {

// Pieces of one long answer that are made on several threads and come out in order. While one is being sent the next
// ones are made; while the reader takes none, no more are made and no thread is held. Belongs to one loop.
class OrderedPieces {
 public:
  // Pieces that are made at the same time: two for two cores, and one more so that no core waits for the loop.
  static constexpr std::size_t kWorkers = 3;

  struct Made {
    std::size_t number;  // its place
    bool more;           // false: it was the last; higher numbers are ignored
  };
  // Makes the next piece that is free. Called on threads of the pool, for different workers at the same time.
  using Maker = std::function<Result<Made>(std::size_t worker, std::string& out)>;
  // Takes the pieces; false: enough for now.
  using Taker = std::function<net::awaitable<Result<bool>>(std::string& piece)>;

  // `first`: the number of the first piece that it hands out.
  OrderedPieces(net::any_io_executor executor, FilePool pool, Maker maker, std::size_t first = 0)
      : pool_(pool), maker_(std::move(maker)), changed_(executor), number_(first) {}

  // Hands out pieces until the taker has enough (true: call it again for the rest, pieces made meanwhile are kept) or
  // has had the last one (false). An error of the maker counts at once, also if earlier pieces are still to come.
  // Returns when no thread works for it any more.
  net::awaitable<Result<bool>> run(Taker taker);

 private:
  struct Worker {
    std::string text;
    Made made{};
    bool ready = false;
  };

  net::awaitable<void> make(std::size_t index);
  net::awaitable<Result<bool>> take(Taker& taker);
  Worker* next();

  FilePool pool_;
  Maker maker_;
  Notifier changed_;
  std::array<Worker, kWorkers> workers_;
  std::size_t number_;  // of the piece that is handed out next
  bool all_made_ = false;
  bool pause_ = false;
  Result<void> made_;
};

}  // namespace osb::execd
