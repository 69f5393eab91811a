#pragma once

#include <termios.h>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::cli {

// The user's terminal in raw mode: what is typed, Ctrl-C included, is ours, and what is written goes out as it is. The
// destructor gives it back as it was found; so does a signal that would end the process because of a bug. Signals from
// outside (SIGTERM, SIGHUP) are the owner's: it catches them and lets this object go.
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

  // A descriptor of the terminal that shares its flags with nobody: it may become non-blocking.
  static Result<UniqueFd> another_descriptor();

  void restore();  // as it was found
  void enter();    // raw again, after restore() or when a shell has brought us back to the foreground

 private:
  explicit RawTerminal(const termios& found) : found_(found), active_(true) {}
  termios found_;
  bool active_;
};

}  // namespace osb::cli
