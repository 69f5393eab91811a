#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "opensandbox/types.h"

namespace opensandbox {

struct PtyStatus {
  std::string session_id = {};
  bool running = false;
  std::uint64_t output_offset = 0;  // bytes of output so far
};

struct PtyCreateOptions {
  std::string cwd = {};
  std::string command = {};  // run by bash -c; "": an interactive shell
  // Not in the published contract. A sandbox that does not know them refuses instead of ignoring them.
  StringMap envs = {};
  std::optional<std::uint32_t> uid = {};
  std::optional<std::uint32_t> gid = {};  // needs uid
  std::string user = {};                  // a name instead of uid
};

struct PtyAttachOptions {
  enum class Mode {
    Terminal,
    Pipes,  // no terminal: stdout and stderr apart, bytes exactly as they were written
  };
  Mode mode = Mode::Terminal;
  // Output from this offset on is replayed first (the sandbox keeps the last MiB). To continue after detach():
  // offset().
  std::uint64_t since = 0;
  bool takeover = false;   // take it from the attached client; otherwise 409 ALREADY_CONNECTED
  bool read_only = false;  // watch only; any number may. Not in the published contract.
  // Not in the published contract, and ignored by sandboxes that do not know them:
  bool input_acks = false;  // Input frames tell what became of the input, and a process that reads no more is no error
  bool start = true;        // false: attach to what runs, or ran, but start nothing
};

// One thing that an attached terminal says.
struct PtyFrame {
  enum class Type {
    Stdout,     // data
    Stderr,     // data; Mode::Pipes only
    Replay,     // data: output from before, starting at `offset`
    Connected,  // session_id and mode ("pty", "pipe"); comes after the replay. input_offset, with input_acks.
    Input,  // input_offset: what the process's pipe has taken so far; input_closed: it takes no more. input_acks only.
    Exit,   // exit_code; -1 when ended by a signal. reason and reason_message where known. The last frame.
    Error,  // code and data: an error of the sandbox; the connection stays unless the sandbox also closes it
    Pong,
  };
  Type type = Type::Stdout;
  std::string data = {};
  std::uint64_t offset = 0;
  int exit_code = 0;
  int signal = 0;  // Exit: the signal that ended it; 0 where there was none or the sandbox does not tell
  // Exit: why it failed, as in ExecutionEvent::ErrorInfo; empty where the sandbox does not know.
  std::string reason = {};
  std::string reason_message = {};
  std::string session_id = {};
  std::string mode = {};
  std::string code = {};
  // How much input the sandbox has got from all connections since the process started; nullopt: it does not tell.
  std::optional<std::uint64_t> input_offset = {};
  bool input_closed = false;
};

// A connection to a terminal. One thread may read while others write; each call is complete in itself. Dropping it
// detaches: the shell goes on.
class PtyConnection {
 public:
  PtyConnection(PtyConnection&&) noexcept;
  PtyConnection& operator=(PtyConnection&&) noexcept;
  ~PtyConnection();

  // The next frame; waits for it, at most `timeout` where one is given (then nullopt). After Exit, and when the sandbox
  // or another client's takeover closed the connection: ErrorKind::Cancelled with CLOSED, TAKEN_OVER or the sandbox's
  // code. A connection that broke: ErrorKind::Network; attach again with since = offset().
  Result<std::optional<PtyFrame>> read(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  // Readable (poll, epoll) as long as read() would return without waiting. It belongs to the connection; do not read
  // it.
  int poll_fd() const;

  // Waits while the sandbox takes no more, which it does once a MiB of input was not read by the process; after ten
  // seconds of that the connection is given up. To be on the safe side, count: see PtyAttachOptions::input_acks.
  Result<void> write(std::string_view input);
  // Mode::Pipes: the process finds the end of its input behind what was written. Not in the published contract.
  Result<void> end_input();
  Result<void> resize(int columns, int rows);
  // SIGINT, SIGTERM, SIGKILL, SIGQUIT or SIGHUP to the shell's process group.
  Result<void> signal(std::string_view name);
  Result<void> ping();

  // Where the output is: the `since` that continues behind the last frame that was read.
  std::uint64_t offset() const;
  // Closes the connection, the shell goes on. read() in another thread returns.
  void detach();

  struct Impl;  // internal
  explicit PtyConnection(std::shared_ptr<Impl> impl);

 private:
  std::shared_ptr<Impl> impl_;
};

// Terminals of a sandbox. Thread-safe.
class Ptys {
 public:
  // The terminal's id; its shell starts with the first attach().
  Result<std::string> create(const PtyCreateOptions& options = {}) const;
  Result<PtyStatus> status(const std::string& id) const;
  Result<void> remove(const std::string& id) const;  // kills what runs in it
  Result<PtyConnection> attach(const std::string& id, const PtyAttachOptions& options = {}) const;

  struct Impl;  // internal
  explicit Ptys(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace opensandbox
