#include "cli/code/line_editor.h"

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cwchar>
#include <histedit.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace osb::cli {
namespace {

// An eventfd that counts Ctrl-C, whichever thread the signal comes to. -1: there is no editor.
volatile std::sig_atomic_t interrupts = -1;

void note_interrupt(int) {
  const int before = errno;
  const std::uint64_t one = 1;
  if (::write(interrupts, &one, sizeof one) < 0) {  // the signal is lost, as without an editor
  }
  errno = before;
}

bool take_interrupt(int fd) {
  std::uint64_t count = 0;
  return ::read(fd, &count, sizeof count) == sizeof count;
}

// One character, or -1 and EINTR after Ctrl-C. libedit's own function misses a Ctrl-C that comes just before it reads.
int next_character(EditLine*, wchar_t* out) {
  std::mbstate_t state{};
  for (;;) {
    pollfd waits[] = {{interrupts, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return -1;
    }
    if (take_interrupt(interrupts)) {
      errno = EINTR;
      return -1;
    }
    char byte = 0;
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return static_cast<int>(got);
    const std::size_t used = std::mbrtowc(out, &byte, 1, &state);
    if (used == static_cast<std::size_t>(-2)) continue;  // more bytes of it follow
    if (used == static_cast<std::size_t>(-1)) *out = static_cast<unsigned char>(byte);
    return 1;
  }
}

}  // namespace

struct LineEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
  std::string prompt;
  struct sigaction before{};
  UniqueFd interrupts{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  static char* shown_prompt(EditLine* editor) {
    State* state = nullptr;
    ::el_get(editor, EL_CLIENTDATA, &state);
    return state->prompt.data();
  }
};

LineEditor::LineEditor() : state_(std::make_unique<State>()) {
  std::setlocale(LC_CTYPE, "");  // letters are more than one byte
  // Ctrl-C ends the reading of a line, not osb.
  struct sigaction noted{};
  noted.sa_handler = note_interrupt;
  interrupts = state_->interrupts.get();
  ::sigaction(SIGINT, &noted, &state_->before);
  state_->editor = ::el_init("osb", stdin, stdout, stderr);
  state_->history = ::history_init();
  HistEvent event;
  ::history(state_->history, &event, H_SETSIZE, 1000);
  ::el_set(state_->editor, EL_CLIENTDATA, state_.get());
  ::el_set(state_->editor, EL_PROMPT, State::shown_prompt);
  ::el_set(state_->editor, EL_EDITOR, "emacs");
  ::el_set(state_->editor, EL_HIST, ::history, state_->history);
  ::el_set(state_->editor, EL_GETCFN, next_character);
  ::el_source(state_->editor, nullptr);  // ~/.editrc
}

LineEditor::~LineEditor() {
  ::history_end(state_->history);
  ::el_end(state_->editor);
  ::sigaction(SIGINT, &state_->before, nullptr);
  interrupts = -1;
}

LineEditor::Event LineEditor::read(const std::string& prompt, std::string& line) {
  state_->prompt = prompt;
  (void)take_interrupt(interrupts);  // meant for code that has ended
  ::el_resize(state_->editor);
  // Before the prompt: libedit shows it first, and a Ctrl-D that is typed meanwhile would be lost.
  ::el_set(state_->editor, EL_PREP_TERM, 1);
  int count = 0;
  const char* text = ::el_gets(state_->editor, &count);
  if (text == nullptr || count <= 0) {
    std::fputs("\n", stdout);
    std::fflush(stdout);
    return count < 0 ? Event::Interrupted : Event::End;
  }
  line.assign(text, static_cast<std::size_t>(count));
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  return Event::Line;
}

void LineEditor::remember(const std::string& line) {
  HistEvent event;
  ::history(state_->history, &event, H_ENTER, line.c_str());
}

}  // namespace osb::cli
