#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <poll.h>
#include <thread>
#include <unistd.h>

#include "base/time.h"
#include "cli/live/top_table.h"
#include "cli/more_commands.h"
#include "cli/output/spinner.h"
#include "cli/terminal/raw_terminal.h"
#include "cli/terminal/signal_fd.h"
#include "sys/pty.h"

namespace osb::cli {
namespace {

struct TopOptions {
  std::vector<std::string> states;
  std::vector<KeyValue> metadata;
  std::string order = "cpu";
  Duration interval{std::chrono::seconds(2)};
  bool once = false;
};

TopOrder order_of(const std::string& name) {
  if (name == "memory") return TopOrder::Memory;
  if (name == "age") return TopOrder::Age;
  return name == "deadline" ? TopOrder::Deadline : TopOrder::Cpu;
}

// Looks at all sandboxes; remembers how each is reached.
class Sampler {
 public:
  Sampler(opensandbox::Client client, const TopOptions& options) : client_(std::move(client)), options_(options) {}

  opensandbox::Result<std::vector<TopRow>> sample() {
    opensandbox::ListOptions wanted;
    wanted.states = options_.states;
    for (const auto& [key, value] : options_.metadata) wanted.metadata[key] = value;
    wanted.page_size = 200;
    auto infos = opensandbox::SandboxManager(client_).list_all(wanted);
    if (!infos) return std::unexpected(infos.error());
    std::vector<TopRow> rows;
    std::map<std::string, opensandbox::Sandbox> known;
    for (opensandbox::SandboxInfo& info : *infos) {
      const auto before = known_.find(info.id);
      known.emplace(info.id, before != known_.end() ? before->second : opensandbox::Sandbox::attach(client_, info.id));
      rows.push_back({.info = std::move(info), .metrics = {}});
    }
    known_ = std::move(known);
    measure(rows);
    sort_rows(rows, order_of(options_.order));
    return rows;
  }

 private:
  // A sandbox that does not answer delays only its own row.
  void measure(std::vector<TopRow>& rows) const {
    constexpr std::size_t kThreads = 16;
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < rows.size(); i = next++) {
        if (rows[i].info.status.state != opensandbox::state::kRunning) continue;
        if (auto metrics = known_.at(rows[i].info.id).metrics()) rows[i].metrics = std::move(*metrics);
      }
    };
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::min(kThreads, rows.size()); ++i) threads.emplace_back(work);
  }

  opensandbox::Client client_;
  const TopOptions& options_;
  std::map<std::string, opensandbox::Sandbox> known_;
};

void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(STDOUT_FILENO, text.data(), text.size());
    if (put < 0 && errno != EINTR) return;
    if (put > 0) text.remove_prefix(static_cast<std::size_t>(put));
  }
}

// The screen as long as the table is on it; the old contents come back.
struct Screen {
  explicit Screen(bool wide) : wide_(wide) { put("\x1b[?1049h\x1b[?25l"); }
  ~Screen() { put("\x1b[?25h\x1b[?1049l"); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void draw(const std::vector<TopRow>& rows, const std::string& note) const {
    const auto size = sys::window_size(STDOUT_FILENO).value_or(sys::WindowSize{});
    std::string out = "\x1b[H";
    auto lines = top_lines(rows, timestamp_now(), size.columns, size.rows > 2 ? size.rows - 1U : 2U,
                           wide_ || size.columns >= kWideTop);
    if (!note.empty()) lines.front() = note.substr(0, size.columns);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      out += i == 1 ? "\x1b[7m" + lines[i] + "\x1b[0m\x1b[K\r\n" : lines[i] + "\x1b[K\r\n";
    }
    put(out + "\x1b[J");
  }

  const bool wide_;
};

Outcome follow(CommandIo& context, const TopOptions& options, SignalFd& signals, Sampler& sampler) {
  auto first = sampler.sample();
  if (!first) return sdk_failed(context, first.error());
  auto terminal = RawTerminal::open();
  if (!terminal) return failed(terminal.error());
  const Screen screen(context.out().format() == Format::Wide);
  std::vector<TopRow> rows = std::move(*first);
  std::string note;
  for (;;) {
    screen.draw(rows, note);
    std::array<pollfd, 2> waits{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{signals.fd(), POLLIN, 0}};
    const int wait = static_cast<int>(std::chrono::milliseconds(options.interval.value).count());
    if (::poll(waits.data(), waits.size(), wait) == 0) {
      auto sampled = sampler.sample();
      note = sampled ? "" : "The server does not answer: " + sampled.error().message;
      if (sampled) rows = std::move(*sampled);
      continue;
    }
    while (const auto signal = signals.take()) {
      if (*signal == SIGINT) return 0;
      if (*signal != SIGWINCH) return exit_code_of_signal(*signal);
    }
    if (waits[0].revents == 0) continue;
    char key = 0;
    if (::read(STDIN_FILENO, &key, 1) != 1) return exit_code_of_signal(SIGHUP);
    if (key == 'q' || key == 'Q' || key == '\x03' || key == '\x1b' || key == '\x04') return 0;
  }
}

Outcome top(CommandIo& context, const TopOptions& options) {
  SignalFd signals({SIGINT, SIGTERM, SIGHUP, SIGWINCH});
  auto client = context.client();
  if (!client) return failed(client.error());
  Sampler sampler(*client, options);
  if (!context.out().structured() && !options.once && RawTerminal::check()) {
    return follow(context, options, signals, sampler);
  }
  opensandbox::Result<std::vector<TopRow>> rows;
  {
    const Spinner spinner(context.out(), "Looking at the sandboxes");
    rows = sampler.sample();
  }
  if (!rows) return sdk_failed(context, rows.error());
  if (context.out().structured()) {
    context.out().data(top_json(*rows, timestamp_now()));
  } else {
    const Sink& sink = context.out().out();
    const bool whole = !sink.terminal || context.out().format() == Format::Wide;
    const bool wide = whole || sink.columns >= kWideTop;
    const std::size_t columns = whole ? 500 : sink.columns;
    for (const std::string& line : top_lines(*rows, timestamp_now(), columns, rows->size() + 2, wide)) {
      context.out().text(line + "\n");
    }
  }
  return 0;
}

}  // namespace

void add_top_command(Command& root, CommandIo& context) {
  Command& command = root.command("top", "Watch sandboxes: CPU, memory, age and deadline.");
  command.details(
      "On a terminal the table is redrawn until q or Ctrl-C; elsewhere, and with json or yaml, it is printed once.");
  TopOptions& options = command.values<TopOptions>();
  command.option("-s,--state", "STATE", "In this state only; repeatable.", options.states)
      .choices({"Pending", "Running", "Pausing", "Paused", "Resuming", "Stopping", "Terminated", "Failed"});
  command.option("-m,--metadata", "KEY=VALUE", "With this metadata only; repeatable.", options.metadata);
  command.option("--sort", "COLUMN", "cpu (the default), memory, age or deadline.", options.order)
      .choices({"cpu", "memory", "age", "deadline"});
  command.option("--interval", "DURATION", "Time between two updates; two seconds.", options.interval);
  command.flag("--once", "Print the table once, also on a terminal.", options.once);
  command.formats({Format::Table, Format::Wide, Format::Json, Format::Yaml});
  command.action([&context, &options] { return top(context, options); });
}

}  // namespace osb::cli
