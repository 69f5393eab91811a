#include "execd/file/content/ordered_pieces.h"

#include <algorithm>

#include "async/race.h"

namespace osb::execd {

net::awaitable<void> OrderedPieces::make(std::size_t index) {
  Worker& worker = workers_[index];
  for (;;) {
    const bool woken = co_await changed_.wait_until([&] { return !worker.ready || pause_; });
    if (!woken || pause_ || all_made_ || !made_) co_return;
    worker.text.clear();
    const auto made = co_await pool_.run([&] { return maker_(index, worker.text); });
    if (made) {
      worker.made = *made;
      worker.ready = true;
      all_made_ = all_made_ || !made->more;
    } else {
      made_ = Failure(made.error());
    }
    changed_.notify_all();
  }
}

OrderedPieces::Worker* OrderedPieces::next() {
  const auto found = std::find_if(workers_.begin(), workers_.end(),
                                  [&](const Worker& worker) { return worker.ready && worker.made.number == number_; });
  return found == workers_.end() ? nullptr : &*found;
}

net::awaitable<Result<bool>> OrderedPieces::take(Taker& taker) {
  for (;;) {
    Worker* worker = nullptr;
    const auto arrived = [&] { return !made_ || (worker = next()) != nullptr; };
    if (!co_await changed_.wait_until(arrived)) co_return fail(Code::Internal, "cancelled");
    if (!made_) co_return Failure(made_.error());
    const auto wants_more = co_await taker(worker->text);
    if (!wants_more) co_return Failure(wants_more.error());
    if (!worker->made.more) co_return false;
    worker->ready = false;
    ++number_;
    if (!*wants_more) co_return true;
    changed_.notify_all();
  }
}

net::awaitable<Result<bool>> OrderedPieces::run(Taker taker) {
  using namespace race;
  static_assert(kWorkers == 3);
  pause_ = false;
  const auto hand_out = [&]() -> net::awaitable<Result<bool>> {
    auto taken = co_await take(taker);
    pause_ = true;
    changed_.notify_all();
    co_return taken;
  };
  co_return co_await (make(0) && make(1) && make(2) && hand_out());
}

}  // namespace osb::execd
