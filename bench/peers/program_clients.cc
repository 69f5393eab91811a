#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <poll.h>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <vector>

#include "base/unique_fd.h"
#include "client.h"
#include "connection.h"

namespace osb::bench {
namespace {

using Words = std::vector<std::string>;

Words split(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

struct Program {
  pid_t pid = -1;
  UniqueFd output;  // the reading end of a pipe
};

// `third`: what the program has as descriptor 3.
Program start(Words words, int third = -1) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) < 0) throw std::runtime_error("pipe");
  UniqueFd read(pipe[0]), write(pipe[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, write.get(), 1);
  if (third >= 0) ::posix_spawn_file_actions_adddup2(&actions, third, 3);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  Program program{.output = std::move(read)};
  const int failed = ::posix_spawnp(&program.pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed) throw std::runtime_error(words[0] + ": " + std::strerror(failed));
  return program;
}

// For the first output of a program: one that says nothing has failed, and the others count.
constexpr int kSilenceMs = 20'000;

// Bytes until the end, or until `wanted` has come. Throws if it has not.
std::uint64_t read_until(const UniqueFd& output, std::string_view wanted = {}) {
  static thread_local std::vector<char> buffer(1 << 18);
  std::uint64_t bytes = 0;
  std::string text;
  for (;;) {
    pollfd waiting{output.get(), POLLIN, 0};
    if (!wanted.empty() && ::poll(&waiting, 1, kSilenceMs) == 0) throw std::runtime_error("no output within 20 s");
    const ssize_t size = ::read(output.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    bytes += static_cast<std::uint64_t>(size);
    if (wanted.empty()) continue;
    text.append(buffer.data(), static_cast<std::size_t>(size));
    if (text.find(wanted) != std::string::npos) return bytes;
  }
  if (!wanted.empty()) throw std::runtime_error("no output, but an end");
  return bytes;
}

void wait_for(const Program& program, const std::string& what) {
  int status = 0;
  while (::waitpid(program.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw std::runtime_error(what + " ended with " + std::to_string(status));
}

// A listening socket that execd inherits, so that a client can connect before execd is ready, without polling.
class ExecdSocket {
 public:
  ExecdSocket() : name_('\0' + new_name()), listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name_.data(), name_.size());
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) < 0 ||
        ::listen(listener_.get(), 16) < 0) {
      throw std::runtime_error(std::string("listen: ") + std::strerror(errno));
    }
  }
  int listener() const { return listener_.get(); }
  // Only execd has the listener then: when it ends, so does the wait.
  void wait_for_answer() {
    Connection connection(name_);
    listener_.reset();
    connection.exchange("GET", "/ping", "", "", 200);
  }

 private:
  const std::string name_;
  UniqueFd listener_;
};

class OciClient final : public Client {
 public:
  OciClient(const std::string& program, std::string bundle) : program_(split(program)), bundle_(std::move(bundle)) {}

  // The bundle's command writes `first` and stays; `run --detach` ends as soon as it has been started.
  std::string create(Until until, Clocks& clocks) override {
    const std::string id = new_name();
    if (until == Until::Answered) return create_execd(id, clocks);
    const auto begin = Clock::now();
    const Program run = start(line({"run", "--detach", "--bundle", bundle_, id}));
    try {
      wait_for(run, "run");
      clocks.started = clocks.running = seconds_since(begin) * 1e3;
      if (until == Until::Output) {
        read_until(run.output, "first");
        clocks.output = seconds_since(begin) * 1e3;
      }
      return id;
    } catch (...) {
      remove(id);
      throw;
    }
  }

  void remove(const std::string& id) override { done({"delete", "--force", id}); }
  void pause(const std::string& id) override { done({"pause", id}); }
  void resume(const std::string& id) override { done({"resume", id}); }
  void command(const std::string& id) override { done({"exec", id, "true"}); }

  double first_byte(const std::string& id) override {
    const auto begin = Clock::now();
    const Program run = start(line({"exec", id, "echo", "first"}));
    read_until(run.output, "first");
    const double first = seconds_since(begin) * 1e3;
    wait_for(run, "exec");
    return first;
  }

  void stream(const std::string& id, unsigned mib) override {
    const Program run = start(line({"exec", id, "sh", "-c", print_lines(mib)}));
    const std::uint64_t bytes = read_until(run.output);
    wait_for(run, "exec");
    if (bytes < (std::uint64_t{mib} << 20)) throw std::runtime_error("the stream broke off");
  }

 private:
  // A second bundle, NAME-execd, has execd as its command.
  std::string create_execd(const std::string& id, Clocks& clocks) const {
    const auto begin = Clock::now();
    ExecdSocket socket;
    const Program run =
        start(line({"run", "--detach", "--preserve-fds", "1", "--bundle", bundle_ + "-execd", id}), socket.listener());
    wait_for(run, "run");
    socket.wait_for_answer();
    clocks.answered = seconds_since(begin) * 1e3;
    return id;
  }

  Words line(const Words& rest) const {
    Words all = program_;
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  }
  void done(const Words& rest) const {
    const Program run = start(line(rest));
    read_until(run.output);
    wait_for(run, rest[0]);
  }

  const Words program_;
  const std::string bundle_;
};

class BwrapClient final : public Client {
 public:
  explicit BwrapClient(std::string root) : root_(std::move(root)) {}

  std::string create(Until until, Clocks& clocks) override {
    const auto begin = Clock::now();
    std::optional<ExecdSocket> socket;
    if (until == Until::Answered) socket.emplace();
    Program run = socket ? start(line({kExecd, "--listen-fd", "3"}), socket->listener())
                         : start(line({"sh", "-c", std::string("echo first; exec sleep ") + kStay}));
    const std::string id = std::to_string(run.pid);
    try {
      if (socket)
        socket->wait_for_answer();
      else
        read_until(run.output, "first");
    } catch (...) {
      end(run);
      throw;
    }
    (socket ? clocks.answered : clocks.output) = seconds_since(begin) * 1e3;
    const std::lock_guard guard(lock_);
    running_[id] = std::move(run);
    return id;
  }

  void remove(const std::string& id) override {
    Program run;
    {
      const std::lock_guard guard(lock_);
      run = std::move(running_.at(id));
      running_.erase(id);
    }
    end(run);
    read_until(run.output);  // everything inside is gone
  }

  // In a sandbox of its own: nothing can be run in one that exists.
  void stream(const std::string&, unsigned mib) override {
    const Program run = start(line({"sh", "-c", print_lines(mib)}));
    const std::uint64_t bytes = read_until(run.output);
    wait_for(run, "bwrap");
    if (bytes < (std::uint64_t{mib} << 20)) throw std::runtime_error("the stream broke off");
  }

 private:
  Words line(const Words& rest) const {
    // Not --die-with-parent: the parent is a thread, and those come and go.
    Words all = {"bwrap", "--unshare-all", "--ro-bind", root_,     "/",   "--proc",
                 "/proc", "--dev",         "/dev",      "--tmpfs", "/tmp"};
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  }

  // bwrap waits for a child, the first process of the sandbox, and ends with it.
  static void end(const Program& run) {
    const std::string pid = std::to_string(run.pid);
    std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
    if (pid_t child = 0; children >> child)
      ::kill(child, SIGKILL);
    else
      ::kill(run.pid, SIGKILL);
    ::waitpid(run.pid, nullptr, 0);
  }

  const std::string root_;
  // Shared: one client may remove a sandbox that another one made.
  static inline std::mutex lock_;
  static inline std::map<std::string, Program> running_;
};

}  // namespace

std::unique_ptr<Client> oci_client(std::string program, std::string bundle) {
  return std::make_unique<OciClient>(program, std::move(bundle));
}
std::unique_ptr<Client> bwrap_client(std::string root) { return std::make_unique<BwrapClient>(std::move(root)); }

}  // namespace osb::bench
