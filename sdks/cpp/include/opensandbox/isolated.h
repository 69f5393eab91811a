#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "opensandbox/commands.h"
#include "opensandbox/files.h"
#include "opensandbox/types.h"

namespace opensandbox {

// A directory of the sandbox in an isolated session.
struct IsolatedMount {
  std::string path = {};
  std::string mode = {};             // rw, ro, overlay; "": overlay, or rw for the workspace of profile balanced
  std::optional<bool> persist = {};  // of an overlay: the file routes, diff and commit see it; true
};

struct IsolatedBind {
  std::string source = {};
  std::string dest = {};  // "": as the source
  bool read_only = false;
};

// Which of the sandbox's variables a session has. Without it all, in profile strict without those that look like
// secrets.
struct IsolatedEnvironment {
  std::string mode = "deny";  // deny: all but `keys`; allow: only `keys`
  std::vector<std::string> keys = {};
};

struct IsolatedSessionOptions {
  std::string profile = {};                     // strict, balanced; "": strict
  std::optional<IsolatedMount> workspace = {};  // this or an overlay is needed
  std::vector<IsolatedMount> overlays = {};
  std::vector<std::string> extra_writable = {};
  std::vector<IsolatedBind> binds = {};
  bool share_net = true;  // false: no network
  std::optional<IsolatedEnvironment> env_passthrough = {};
  std::optional<std::uint32_t> uid = {};
  std::optional<std::uint32_t> gid = {};                  // needs uid
  std::string uid_mode = {};                              // setpriv, userns; "": setpriv
  std::optional<std::chrono::seconds> idle_timeout = {};  // 0: never; nothing: half an hour
};

struct IsolatedSession {
  std::string id = {};
  std::string status = {};  // active, dead, destroyed
  std::optional<Timestamp> created_at = {};
  std::optional<Timestamp> last_run_at = {};
  std::optional<std::chrono::seconds> idle_remaining = {};
  std::string json = {};  // everything, with the settings that it was made with
};

struct IsolatedRunOptions {
  StringMap envs = {};
  std::chrono::seconds timeout{0};  // 0: never
  bool discard_output = false;
  bool keep_json = false;
};

// A run in the background.
struct IsolatedRun {
  std::string session_id = {};
  std::string id = {};
  bool running = true;
  std::optional<int> exit_code = {};
  std::string error = {};
  std::optional<Timestamp> started_at = {};
  std::optional<Timestamp> finished_at = {};
};

struct IsolatedCommit {
  std::uint64_t written = 0;  // files
  std::uint64_t removed = 0;
};

// One wall of sessions, as a real one was found: active, disabled, degraded, unsupported.
struct IsolatedWall {
  std::string state = {};
  std::string message = {};
};

struct IsolationCapabilities {
  bool available = false;
  std::string isolator = {};
  std::string version = {};
  std::string message = {};  // why they are not available
  bool setpriv_available = false;
  bool userns_available = false;
  bool commit_supported = false;
  bool diff_supported = false;
  std::string init_mode = {};  // none, pid1, subreaper
  bool signal_shield = false;
  IsolatedWall cap_drop = {}, seccomp = {}, landlock = {}, ebpf = {};
  std::string json = {};
};

// Shells behind walls of their own inside one sandbox, which was created with the extension bootstrap.execd.isolation =
// "enable". A session sees the sandbox's files read-only and changes its workspace through an overlay. Thread-safe.
class IsolatedSessions {
 public:
  Result<IsolationCapabilities> capabilities() const;
  Result<IsolatedSession> create(const IsolatedSessionOptions& options) const;
  Result<IsolatedSession> get(const std::string& id) const;
  Result<std::vector<IsolatedSession>> list() const;
  Result<void> remove(const std::string& id) const;

  // Code of a shell. Variables and directory stay from run to run. A stream that breaks is an error.
  Result<Execution> run(const std::string& id, const std::string& code, const IsolatedRunOptions& options = {},
                        const ExecutionHandlers& handlers = {}) const;
  // Returns at once.
  Result<IsolatedRun> run_background(const std::string& id, const std::string& code, const StringMap& envs = {}) const;
  Result<IsolatedRun> run_status(const std::string& id, const std::string& run_id) const;
  Result<CommandLogs> run_logs(const std::string& id, const std::string& run_id,
                               std::optional<std::int64_t> cursor = std::nullopt) const;

  // The session's own view of its workspace and overlays.
  Files files(const std::string& id) const;
  // The changes of its overlays as a layer of an image (tar.gz). Returns the number of bytes.
  Result<std::uint64_t> diff(const std::string& id, const ByteSink& sink) const;
  // Carries the changes over to the sandbox. The session goes on without changes.
  Result<IsolatedCommit> commit(const std::string& id) const;

  explicit IsolatedSessions(std::shared_ptr<Commands::Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Commands::Impl> impl_;
};

}  // namespace opensandbox
