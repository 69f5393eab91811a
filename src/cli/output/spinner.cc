#include "cli/output/spinner.h"

#include <array>
#include <condition_variable>
#include <mutex>
#include <sys/ioctl.h>
#include <thread>

namespace osb::cli {

struct Spinner::State {
  explicit State(std::FILE* file) : file(file) {}

  void show() {
    constexpr std::array<std::string_view, 10> kFrames = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
    constexpr auto kDelay = std::chrono::milliseconds(500), kStep = std::chrono::milliseconds(100);
    std::unique_lock lock(mutex);
    if (wake.wait_for(lock, kDelay, [this] { return ended; })) return;
    for (std::size_t frame = 0;; ++frame) {
      const std::string line = "\r\x1b[K" + std::string(kFrames[frame % kFrames.size()]) + " " + fitting(message);
      std::fwrite(line.data(), 1, line.size(), file);
      std::fflush(file);
      if (wake.wait_for(lock, kStep, [this] { return ended; })) break;
    }
    std::fputs("\r\x1b[K", file);
    std::fflush(file);
  }

  // A line that wraps could not be taken back.
  std::string fitting(std::string text) const {
    winsize size{};
    const std::size_t columns = ::ioctl(::fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 4 ? size.ws_col : 80;
    if (text.size() > columns - 3) text.resize(columns - 3);
    return text;
  }

  std::FILE* file;
  std::mutex mutex;
  std::condition_variable wake;
  std::string message;
  bool ended = false;
  std::thread thread;
};

Spinner::Spinner(const Output& output, std::string message) {
  if (!output.err().terminal || output.structured()) return;
  state_ = std::make_unique<State>(output.err().file);
  state_->message = std::move(message);
  state_->thread = std::thread([state = state_.get()] { state->show(); });
}

Spinner::~Spinner() { stop(); }

void Spinner::update(std::string message) {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  state_->message = std::move(message);
}

void Spinner::stop() {
  if (!state_) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
  state_.reset();
}

}  // namespace osb::cli
