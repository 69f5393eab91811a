#pragma once

#include <vector>

#include "execd/isolated/session_root.h"
#include "execd/isolated/session_spec.h"
#include "execd/isolated/session_user.h"

namespace osb::execd {

// Messages to a session's first process, by their first byte.
namespace session_message {
inline constexpr char kRun = 'R';     // behind it the numbers of descriptors in the child; fds: see run_proxy.h
inline constexpr char kFiles = 'F';   // fds: a connection on which to serve the file routes
inline constexpr char kDiff = 'D';    // fds: a packet socket that takes the pieces of the diff
inline constexpr char kCommit = 'C';  // fds: a packet socket that takes the outcome
// From the first process, and on the packet sockets above.
inline constexpr char kReady = 'r';
inline constexpr char kPiece = 'p';
inline constexpr char kDone = 'd';
inline constexpr char kFailed = 'f';       // behind it the reason
inline constexpr char kTooLarge = 'l';     // the same
inline constexpr char kUnsupported = 'u';  // the same
}  // namespace session_message

// How a run has ended, as bytes on its socket.
struct RunStatus {
  int code = 0;
  int signal = 0;
};

// The first process of a session, which is in its root and behind its walls: starts runs, reaps, serves files, until
// the control socket ends. Then it exits, and the kernel kills all others of its PID namespace. Runs and files are
// handed on to `user` where there is one, and the session ends with that process too.
[[noreturn]] void serve_session(int control, const SessionSpec& spec, const std::vector<SessionLayer>& layers,
                                SessionUser user = {});

}  // namespace osb::execd
