#pragma once

#include <string>

#include "sandboxd/sandbox/sandbox_context.h"
#include "sandboxd/sandbox/session_requests.h"

namespace osb::sandboxd {

// The ends of sandboxes: by themselves, and by request.
class Endings {
 public:
  explicit Endings(const SandboxContext& context) : context_(context), sessions_(context) {}

  // Watches PID 1 of a living sandbox. Without it the daemon does not notice the sandbox's end.
  Result<void> open_watch(SandboxEntry& entry);
  // After open_watch(): records the exit when it comes, and serves its isolated sessions until then.
  void watch(EntryPtr entry) {
    sessions_.serve(entry);
    context_.tasks.spawn("watch sandbox", watch_exit(std::move(entry)));
  }

  // A sandbox of an earlier daemon that has ended meanwhile. Blocks; at start only.
  void record_lost(SandboxEntry& entry);

  // Removes a sandbox whose create failed. The caller has the guard.
  net::awaitable<void> discard(EntryPtr entry, Error why);
  // Returns when all its processes have ended and its directory is out of the way. Ends a create that is under way.
  // Code::NotFound.
  net::awaitable<Result<void>> remove(std::string id);

 private:
  net::awaitable<void> watch_exit(EntryPtr entry);
  net::awaitable<void> tear_down(EntryPtr entry);
  struct Ending {
    api::native::Exit exit;
    std::string message;
  };
  Ending how_it_ended(const SandboxEntry& entry) const;
  void record_exit(SandboxEntry& entry, const Ending& ending);
  void empty_trash_later();
  net::awaitable<void> empty_trash();

  const SandboxContext& context_;
  SessionRequests sessions_;
  bool emptying_trash_ = false, empty_again_ = false;
};

}  // namespace osb::sandboxd
