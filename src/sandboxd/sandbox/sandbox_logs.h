#pragma once

#include <functional>
#include <memory>
#include <string>

#include "http/body.h"
#include "sandboxd/sandbox/file_watch.h"
#include "sandboxd/sandbox/log_file.h"
#include "sandboxd/sandbox/sandbox_context.h"

namespace osb::sandboxd {

// The output of entrypoints: read, followed, and kept from growing without end.
class SandboxLogs {
 public:
  explicit SandboxLogs(const SandboxContext& context) : context_(context), watch_(context.executor) {}

  // The last `limit` bytes of the log; with `times` each line begins with its time.
  net::awaitable<Result<std::string>> tail(std::string id, std::size_t limit, bool times);

  // Writes the log with times into a body, from a place on. With `follow` it goes on until the sandbox has ended; the
  // body breaks off when the sandbox is removed or the daemon ends. A reader that is slower than the log's growth
  // misses lines and gets a line that says so.
  using Producer = std::move_only_function<net::awaitable<Result<void>>(http::BodyWriter&)>;
  net::awaitable<Result<Producer>> open(std::string id, LogsFrom from, bool follow);

  // Frees the beginning of logs that have grown too long, now and then, until cancelled.
  net::awaitable<void> bound();

  // The sandbox has changed: readers look at its state again.
  void poke(const std::string& id) { watch_.poke(id); }
  void end_following() { watch_.close(); }
  net::awaitable<void> close() { return watch_.stop(); }

 private:
  struct OpenLog;
  net::awaitable<Result<void>> send(std::shared_ptr<OpenLog> log, http::BodyWriter& out);

  const SandboxContext& context_;
  FileWatch watch_;
};

}  // namespace osb::sandboxd
