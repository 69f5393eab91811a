#pragma once

#include <termios.h>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::cli {

// The user's terminal in raw mode: osb reads every key, also Ctrl-C, and output goes out unchanged. The destructor
// gives it back as it was found; so does a signal that would end the process because of a bug. Signals from outside
// (SIGTERM, SIGHUP) are the owner's: it catches them and lets this object go.
//
// One at a time in a process.
class RawTerminal {
 public:
  // Of standard input, which must be a terminal, as must standard output.
  static Result<RawTerminal> open();
  static Result<void> check();  // whether open() has a terminal
  RawTerminal(RawTerminal&& other) noexcept;
  RawTerminal& operator=(RawTerminal&&) = delete;
  ~RawTerminal();

  // A descriptor of the terminal with flags of its own: it may become non-blocking.
  static Result<UniqueFd> another_descriptor();

  void restore();  // as it was found
  void enter();    // raw again, after restore() or when a shell has brought us back to the foreground

 private:
  explicit RawTerminal(const termios& found) : found_(found), active_(true) {}
  termios found_;
  bool active_;
};

}  // namespace osb::cli
