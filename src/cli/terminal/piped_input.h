#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <opensandbox/pty.h>
#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace osb::cli {

// Whether a command in a sandbox is given our standard input. A terminal only with -i, because a user types there;
// anything else that can hold bytes always, as in tar c . | osb run IMAGE -- tar x.
bool passes_input(bool asked);

// Passes standard input on to a process in a sandbox, byte for byte and with its end, from a thread of its own. Input
// that the process has not read yet is kept here, at most a MiB, and is sent again over the next connection when one is
// lost: nothing is lost or repeated. The sandbox takes that much without holding the connection up, so that signals get
// through however little the process reads.
class PipedInput {
 public:
  PipedInput();
  ~PipedInput();  // after connect(nullptr)
  PipedInput(const PipedInput&) = delete;
  PipedInput& operator=(const PipedInput&) = delete;

  // Where it goes from now on, which has `accepted` bytes already; nullptr: nowhere, it waits. Returns when the
  // connection before is no longer used, so detach() that first.
  void connect(opensandbox::PtyConnection* connection, std::uint64_t accepted = 0);
  // The process has this much of it.
  void taken(std::uint64_t offset);
  // The process reads no more. Standard input is closed, so that its writer notices.
  void close();

 private:
  void run();
  void forget(std::uint64_t offset);
  bool may_read() const;
  void read_some(std::unique_lock<std::mutex>& lock);
  void send_some(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  opensandbox::PtyConnection* connection_ = nullptr;
  bool busy_ = false, broken_ = false, stopped_ = false;
  // Input from offset begin_ on; the first next_ pieces were sent over this connection.
  std::deque<std::string> pieces_;
  std::uint64_t begin_ = 0;
  std::size_t next_ = 0, bytes_ = 0;
  bool ended_ = false, end_sent_ = false;
  UniqueFd wake_;  // an eventfd: do not wait for input any longer
  std::thread thread_;
};

}  // namespace osb::cli
