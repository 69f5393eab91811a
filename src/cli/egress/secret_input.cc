#include "cli/egress/secret_input.h"

#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <termios.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "cli/read_input.h"

namespace osb::cli {
namespace {

constexpr std::size_t kLongest = 64 << 10;

// Turns the echo of a terminal off for as long as it lives.
class SilentTerminal {
 public:
  explicit SilentTerminal(int fd) : fd_(fd) {
    changed_ = ::tcgetattr(fd_, &before_) == 0;
    if (!changed_) return;
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    silent.c_lflag |= ECHONL;
    changed_ = ::tcsetattr(fd_, TCSAFLUSH, &silent) == 0;
  }
  SilentTerminal(const SilentTerminal&) = delete;
  SilentTerminal& operator=(const SilentTerminal&) = delete;
  ~SilentTerminal() {
    if (changed_) ::tcsetattr(fd_, TCSAFLUSH, &before_);
  }
  bool silent() const { return changed_; }

 private:
  int fd_;
  bool changed_ = false;
  termios before_{};
};

// Up to the end, or up to the first line end.
Expected<std::string> read_descriptor(int fd, bool one_line) {
  std::string out;
  char byte = 0;
  while (out.size() <= kLongest) {
    const ssize_t got = ::read(fd, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return invalid("The secret cannot be read: " + std::generic_category().message(errno) + ".");
    if (got == 0 || (one_line && byte == '\n')) return out;
    out += byte;
  }
  return invalid("The secret is longer than 64 KiB.");
}

Expected<std::string> ask(const std::string& name) {
  const UniqueFd terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC));
  if (terminal.get() < 0) {
    return usage_error("There is no terminal to ask on: give the secret with --from-file or --from-fd.");
  }
  const SilentTerminal silent(terminal.get());
  if (!silent.silent()) return invalid("The terminal would show the secret: use --from-file or --from-fd.");
  const std::string question = "Secret for " + name + ": ";
  if (::write(terminal.get(), question.data(), question.size()) < 0) return invalid("The terminal cannot be written.");
  return read_descriptor(terminal.get(), true);
}

}  // namespace

void add_secret_options(Command& command, SecretOptions& options) {
  command
      .option("--from-file", "PATH", "Read the secret from a file, - for stdin. Default: ask on the terminal.",
              options.file)
      .completes(Completes::Files);
  command.option("--from-fd", "N", "Read the secret from an open descriptor.", options.descriptor).range(0, 1 << 20);
  command.option("--entry", "NAME", "Use an entry of the server's operator; the server fetches its value.",
                 options.entry);
}

Expected<std::string> read_secret(const SecretOptions& options, const std::string& name) {
  auto text = options.descriptor      ? read_descriptor(static_cast<int>(*options.descriptor), false)
              : !options.file.empty() ? read_input(options.file, "secret")
                                      : ask(name);
  if (!text) return text;
  if (text->ends_with('\n')) text->pop_back();
  if (text->ends_with('\r')) text->pop_back();
  if (text->empty()) return invalid("The secret is empty.");
  if (text->size() > kLongest) return invalid("The secret is longer than 64 KiB.");
  return text;
}

}  // namespace osb::cli
