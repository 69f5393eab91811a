#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace osb::api {

// The JSON requests of execd, one struct and one decoder each. A decoder takes the body as it came; an error in it is
// Code::InvalidRequest with reason INVALID_REQUEST_BODY and the field's JSON pointer. An absent, null or empty string
// is "" here unless the difference matters. Strings that go to the kernel (commands, paths, environment) hold no NUL
// byte: it would silently cut them short.

using EnvMap = std::map<std::string, std::string>;

struct RunCommand {
  std::string command;            // for a shell; empty exactly where argv is not
  std::vector<std::string> argv;  // a program and its arguments, run without a shell; the first is not empty
  std::string cwd;                // not expanded yet; "" means the daemon's own
  bool background = false;
  std::chrono::milliseconds timeout{0};  // 0 is none; never more than kLongestTimeout
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;  // only together with uid
  std::string user;                  // addition to the contract: a name from /etc/passwd, instead of uid
  EnvMap envs;
};
Result<RunCommand> decode_run_command(std::string_view body);

// A hundred years. Longer timeouts are cut to it, so that a deadline in nanoseconds does not overflow.
inline constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::days(36500);

struct CreateSession {
  std::string cwd;
};
Result<CreateSession> decode_create_session(std::string_view body);  // the body may be empty

struct RunInSession {
  std::string command;
  std::string cwd;
  std::chrono::milliseconds timeout{0};
};
Result<RunInSession> decode_run_in_session(std::string_view body);

struct CreatePty {
  std::string cwd = {};
  std::string command = {};
  // Additions to the contract, as in RunCommand.
  EnvMap envs = {};
  std::optional<std::uint32_t> uid = {};
  std::optional<std::uint32_t> gid = {};
  std::string user = {};
};
Result<CreatePty> decode_create_pty(std::string_view body);  // the body may be empty

// A text frame of a client on a PTY's WebSocket. Which fields count depends on the type; unknown types are possible.
struct PtyFrame {
  std::string type;
  std::string data;
  std::string signal;
  int cols = 0;
  int rows = 0;
};
Result<PtyFrame> decode_pty_frame(std::string_view text);

struct FilePermission {
  std::int64_t mode = 0;  // the digits spell the bits in octal (755 is 0755); 0 leaves them as they are
  std::string owner;      // "" leaves it
  std::string group;
};

// The bits that `mode` spells, only rwx of it; nothing when they are to be left alone. A digit that is not octal is a
// RUNTIME_ERROR (500), as the contract has it.
Result<std::optional<std::uint32_t>> permission_bits(std::int64_t mode);

struct PathPermission {
  std::string path;
  FilePermission permission;
};
// In the order of the text. Used by /files/permissions and POST /directories.
Result<std::vector<PathPermission>> decode_path_permissions(std::string_view body);

struct MoveFile {
  std::string src;
  std::string dest;
};
Result<std::vector<MoveFile>> decode_moves(std::string_view body);

struct ReplaceInFile {
  std::string path;
  std::string old_text;  // not empty; may hold any character
  std::string new_text;
};
Result<std::vector<ReplaceInFile>> decode_replacements(std::string_view body);

// The JSON part that precedes each uploaded file. Errors have the reason INVALID_FILE_METADATA.
Result<PathPermission> decode_upload_metadata(std::string_view body);

struct RunCode {
  std::string code;
  std::string context_id;
  std::string language;
  // Additions to the contract.
  std::chrono::milliseconds timeout{0};  // 0: that of the context
  std::string cwd;                       // for this run; empty: the one that the context is in
  EnvMap envs;                           // for this run
};
Result<RunCode> decode_run_code(std::string_view body);

struct CreateCodeContext {
  std::string language;  // may be empty: the runtime says which languages there are
  std::string cwd = {};
  // Additions to the contract.
  EnvMap envs = {};
  std::chrono::milliseconds timeout{0};  // of runs that have none of their own; 0: none
};
Result<CreateCodeContext> decode_create_code_context(std::string_view body);

}  // namespace osb::api
