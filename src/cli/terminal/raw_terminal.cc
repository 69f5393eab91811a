#include "cli/terminal/raw_terminal.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <string>
#include <unistd.h>

#include "sys/syscall.h"

namespace osb::cli {
namespace {

constexpr std::array kBugs = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

termios saved;                          // for the handler
volatile std::sig_atomic_t is_raw = 0;  // the handler has something to restore

void restore_and_die(int signal) {
  if (is_raw != 0) ::tcsetattr(STDIN_FILENO, TCSANOW, &saved);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// Keys that were typed for the next program are kept: TCSADRAIN, not TCSAFLUSH.
void set(const termios& mode) {
  while (::tcsetattr(STDIN_FILENO, TCSADRAIN, &mode) != 0 && errno == EINTR) {
  }
}

}  // namespace

Result<void> RawTerminal::check() {
  if (::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0) return {};
  return fail(Code::InvalidRequest, "this needs a terminal: standard input and output must not be redirected");
}

Result<RawTerminal> RawTerminal::open() {
  if (auto ok = check(); !ok) return Failure(ok.error());
  termios found{};
  if (::tcgetattr(STDIN_FILENO, &found) != 0) return sys::from_errno("look at the terminal", errno);
  saved = found;
  for (const int signal : kBugs) ::signal(signal, restore_and_die);
  RawTerminal terminal(found);
  terminal.enter();
  return terminal;
}

RawTerminal::RawTerminal(RawTerminal&& other) noexcept : found_(other.found_), active_(other.active_) {
  other.active_ = false;
}

RawTerminal::~RawTerminal() {
  if (!active_) return;
  restore();
  for (const int signal : kBugs) ::signal(signal, SIG_DFL);
}

Result<UniqueFd> RawTerminal::another_descriptor() {
  UniqueFd fd(::open("/proc/self/fd/0", O_RDWR | O_NOCTTY | O_CLOEXEC));
  // A terminal of another user (after su) cannot be opened by its name; the controlling one can.
  if (fd.get() < 0) fd.reset(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (fd.get() < 0) return sys::from_errno("open the terminal", errno);
  return fd;
}

void RawTerminal::restore() {
  is_raw = 0;
  set(found_);
}

void RawTerminal::enter() {
  termios raw = found_;
  ::cfmakeraw(&raw);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  is_raw = 1;
  set(raw);
}

}  // namespace osb::cli
