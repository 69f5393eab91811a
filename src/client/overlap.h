#pragma once

#include <opensandbox/async.h>
#include <opensandbox/files.h>
#include <optional>
#include <string>
#include <string_view>

#include "async/timer.h"
#include "client/loop.h"

namespace opensandbox {

// The caller's thread and the loop at work on the same stream at the same time: one deals with the disk while the other
// deals with the network. Both objects live on the loop, in a coroutine that waits for their end before the call ends.

// Bytes from the loop to a function of the caller. While the function has one block, the next one is collected; when it
// waits for bytes it gets what there is at once.
class WriteBehind {
 public:
  WriteBehind(net::any_io_executor executor, Caller& caller, const ByteSink& sink)
      : executor_(executor), caller_(caller), sink_(sink), changed_(std::move(executor)) {}

  async::ByteSink sink();
  // After the last piece, also after an error: hands the rest over and waits. The function's error, if it had one.
  async::Task<void> finish();

 private:
  async::Task<void> put(std::string_view piece);
  void hand_over();

  net::any_io_executor executor_;
  Caller& caller_;
  const ByteSink& sink_;
  osb::Notifier changed_;
  std::string collected_, given_;
  bool busy_ = false;  // the function has given_
  std::optional<Error> failed_;
};

// Bytes from a function of the caller to the loop, always one call ahead: the view that the function returns must stay
// valid until the call after the next.
class ReadAhead {
 public:
  ReadAhead(net::any_io_executor executor, Caller& caller, const ByteSource& source)
      : executor_(executor), caller_(caller), source_(source), changed_(std::move(executor)) {}

  async::ByteSource source();
  // Also after an error: waits for a call that is under way.
  net::awaitable<void> finish();

 private:
  async::Task<std::string_view> next();
  void ask();

  net::any_io_executor executor_;
  Caller& caller_;
  const ByteSource& source_;
  osb::Notifier changed_;
  bool busy_ = false;
  std::optional<Result<std::string_view>> piece_;  // not taken yet
};

}  // namespace opensandbox
