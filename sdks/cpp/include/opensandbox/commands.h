#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "opensandbox/types.h"

namespace opensandbox {

// One event of a run, as it came.
struct ExecutionEvent {
  enum class Type {
    Init,            // text: the execution's id
    Stdout,          // text: one line without its end, an empty line is "\n"; of code: text with its line ends
    Stderr,          // the same
    Result,          // results: MIME type -> text (code)
    Error,           // error
    Complete,        // execution_time
    ExecutionCount,  // execution_count (code)
    Gap,             // events gap_from..gap_to are gone: the stream was lost for longer than the sandbox keeps events
    Other,           // a type this library does not know; see json
  };
  struct ErrorInfo {
    std::string name = {};   // CommandExecError for commands
    std::string value = {};  // for commands the exit code as text
    std::vector<std::string> traceback = {};
    // Why it failed, where the sandbox knows: OUT_OF_MEMORY, TIMEOUT, INTERRUPTED; and a sentence for people, such as
    // "out of memory (limit 256 MiB)". Both empty otherwise. Not in the published contract.
    std::string reason = {};
    std::string reason_message = {};
  };
  Type type = Type::Other;
  std::string text = {};
  std::optional<ErrorInfo> error = {};
  StringMap results = {};
  std::chrono::milliseconds execution_time{0};
  std::int64_t execution_count = 0;
  std::int64_t timestamp = 0;  // unix ms
  std::uint64_t seq = 0;       // number of the event, from 1 without holes; 0 where the sandbox does not number
  std::uint64_t gap_from = 0;
  std::uint64_t gap_to = 0;
  std::string json = {};  // the event's line; only with RunOptions::keep_json or Type::Other

  // The output's bytes of a Stdout or Stderr event with a line feed at the end, as a terminal wants them. The contract
  // drops line ends (LF, CR, CRLF alike) and does not tell whether the last line had one: for bytes exactly as they
  // were written use a Pty in Mode::Pipes.
  std::string line() const { return text == "\n" ? text : text + '\n'; }
};

// The result of a run.
struct Execution {
  std::string id = {};
  // Empty with RunOptions::discard_output. Of a command: lines, an empty one is "". Of code: pieces of text with their
  // line ends, as they came.
  std::vector<std::string> stdout_lines = {};
  std::vector<std::string> stderr_lines = {};
  std::vector<StringMap> results = {};  // code
  std::optional<ExecutionEvent::ErrorInfo> error = {};
  std::optional<std::chrono::milliseconds> execution_time = {};  // set when it ended well
  // 0: ended well. Otherwise what the error said; nothing for background runs and where the error is no number.
  std::optional<int> exit_code = {};
  std::uint64_t last_seq = 0;
  int reconnects = 0;     // how often the stream was lost and continued
  bool complete = false;  // the last event came: an error or the completion

  bool pieces = false;  // of code: see stdout_lines

  std::string stdout_text() const;  // all of it; lines of a command have a line feed each
  std::string stderr_text() const;
};

// Called for every event in order, on the calling thread: it may use the same objects. Return false to stop listening:
// the run returns ErrorKind::Cancelled, the command goes on (see Commands::interrupt).
using EventHandler = std::function<bool(const ExecutionEvent&)>;

// Any of these may be empty.
struct ExecutionHandlers {
  std::function<void(const std::string& id)> on_init = {};
  std::function<void(const std::string& line)> on_stdout = {};  // without line end; an empty line is ""
  std::function<void(const std::string& line)> on_stderr = {};
  std::function<void(const StringMap& results)> on_result = {};
  std::function<void(const ExecutionEvent::ErrorInfo&)> on_error = {};
  std::function<void(std::chrono::milliseconds)> on_complete = {};
  EventHandler on_event = {};  // every event, before the ones above
};

struct RunOptions {
  std::string cwd = {};
  StringMap envs = {};
  std::chrono::milliseconds timeout{0};  // the sandbox kills the command after so long; 0: never
  std::optional<std::uint32_t> uid = {};
  std::optional<std::uint32_t> gid = {};  // needs uid
  std::string user = {};                  // a name instead of uid; not in the published contract
  bool background = false;                // returns at once with the id; see status() and logs()
  bool discard_output = false;            // handlers only, nothing kept
  bool keep_json = false;
  // A stream that breaks is continued where it was (no event lost, none doubled) as long as the sandbox answers within
  // this time. Zero: a broken stream is an error.
  std::chrono::milliseconds reconnect_for{30'000};
};

struct CommandStatus {
  std::string id = {};
  std::string content = {};  // the command's text
  bool running = false;
  std::optional<int> exit_code = {};
  std::string error = {};
  std::string reason = {};  // as in ExecutionEvent::ErrorInfo
  std::string reason_message = {};
  std::optional<Timestamp> started_at = {};
  std::optional<Timestamp> finished_at = {};
  std::string json = {};
};

struct CommandLogs {
  std::string text = {};
  std::int64_t cursor = 0;          // to be given to the next call
  std::uint64_t skipped_bytes = 0;  // gone between the cursor that was given and the text
};

// A command in a sandbox. Thread-safe; any number of runs at the same time.
class Commands {
 public:
  // For a shell (bash where there is one, else sh).
  Result<Execution> run(const std::string& command, const RunOptions& options = {},
                        const ExecutionHandlers& handlers = {}) const;
  // A program and its arguments, without a shell. Not in the published contract.
  Result<Execution> run_program(const std::vector<std::string>& argv, const RunOptions& options = {},
                                const ExecutionHandlers& handlers = {}) const;
  // The events of a command from behind number `after` (0: from the first) to its end. Of the options only
  // discard_output, keep_json and reconnect_for count.
  Result<Execution> follow(const std::string& id, std::uint64_t after, const RunOptions& options = {},
                           const ExecutionHandlers& handlers = {}) const;

  // A variable for all commands, sessions and terminals that begin later, until the sandbox ends.
  Result<void> set_env(const std::string& name, const std::string& value) const;

  Result<void> interrupt(const std::string& id) const;
  Result<CommandStatus> status(const std::string& id) const;
  // Output of a background command from a byte offset.
  Result<CommandLogs> logs(const std::string& id, std::optional<std::int64_t> cursor = std::nullopt) const;

  struct Impl;  // internal
  explicit Commands(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

struct SessionRunOptions {
  std::string cwd = {};
  std::chrono::milliseconds timeout{0};
  bool discard_output = false;
  bool keep_json = false;
};

// Shells that keep variables and directory between runs. A stream that breaks is an error here: sessions have no
// numbered way back.
class Sessions {
 public:
  // The session's id.
  Result<std::string> create(const std::string& cwd = {}) const;
  Result<Execution> run(const std::string& session_id, const std::string& command,
                        const SessionRunOptions& options = {}, const ExecutionHandlers& handlers = {}) const;
  Result<void> remove(const std::string& session_id) const;

  explicit Sessions(std::shared_ptr<Commands::Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Commands::Impl> impl_;
};

}  // namespace opensandbox
