// The same work without execd, as fast as the kernel allows: bench/execd compares with it. One line of JSON, or a
// server.
//
//   spawn CLIENTS COUNT COMMAND   COUNT times start and wait for `bash -c COMMAND`, CLIENTS at once
//   pipe PROGRAM [ARG...]         the program's output, read from a pipe and thrown away
//   attributes THREADS ROOT       names and attributes of all files two levels below ROOT: the system calls, nothing
//   else sendfile PORT FILE            answers every request on 127.0.0.1 with the file, prints "listening" when ready

#include <atomic>
#include <csignal>
#include <dirent.h>
#include <fcntl.h>
#include <map>
#include <span>
#include <spawn.h>
#include <string>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <vector>

#include "loopback.h"
#include "samples.h"

namespace osb::bench {
namespace {

constexpr std::size_t kPipeBuffer = 64 * 1024;

int spawn(std::size_t clients, std::size_t count, const char* command) {
  std::string shell = "bash", flag = "-c", text = command;
  char* argv[] = {shell.data(), flag.data(), text.data(), nullptr};
  std::map<pid_t, Clock::time_point> running;
  Samples samples;
  const auto begin = Clock::now();
  const auto start_one = [&] {
    const auto started = Clock::now();
    pid_t pid = -1;
    // glibc does this like vfork: nothing is copied.
    if ((errno = ::posix_spawn(&pid, "/bin/bash", nullptr, nullptr, argv, environ)) != 0) die("/bin/bash");
    running.emplace(pid, started);
  };
  std::size_t started = 0;
  for (; started < std::min(clients, count); ++started) start_one();
  while (samples.size() < count) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, 0);
    if (pid < 0 || status != 0) die("the command failed");
    samples.add(seconds_since(running.at(pid)) * 1e3);
    running.erase(pid);
    if (started++ < count) start_one();
  }
  samples.print(seconds_since(begin));
  return EXIT_SUCCESS;
}

int pipe_reader(std::span<char*> argv) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) die("pipe2");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, writer.get(), 1);
  const auto begin = Clock::now();
  pid_t pid = -1;
  // argv is that of main and ends with a null pointer.
  if ((errno = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ)) != 0) die(argv[0]);
  ::posix_spawn_file_actions_destroy(&actions);
  writer.reset();
  std::vector<char> buffer(kPipeBuffer);
  std::uint64_t bytes = 0;
  for (ssize_t got; (got = ::read(reader.get(), buffer.data(), buffer.size())) > 0;) {
    bytes += static_cast<std::uint64_t>(got);
  }
  int status = 0;
  if (::waitpid(pid, &status, 0) < 0 || status != 0) die("the program failed");
  std::printf("{\"seconds\": %.6f, \"bytes\": %llu}\n", seconds_since(begin), static_cast<unsigned long long>(bytes));
  return EXIT_SUCCESS;
}

std::vector<std::string> names_in(int directory) {
  std::vector<std::string> out;
  std::vector<char> buffer(kPipeBuffer);
  for (ssize_t got; (got = ::getdents64(directory, buffer.data(), buffer.size())) > 0;) {
    for (ssize_t at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer.data() + at);
      at += entry->d_reclen;
      if (entry->d_name[0] != '.') out.emplace_back(entry->d_name);
    }
  }
  return out;
}

// The least work of a listing with attributes: getdents64 for each directory and fstatat for each file.
int attributes(std::size_t count, const char* path) {
  const auto begin = Clock::now();
  const UniqueFd root(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) die(path);
  const std::vector<std::string> directories = names_in(root.get());
  std::atomic<std::size_t> next = 0, files = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < directories.size();) {
      const UniqueFd directory(::openat(root.get(), directories[i].c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      struct stat st{};
      std::size_t found = 0;
      for (const std::string& name : names_in(directory.get())) {
        if (::fstatat(directory.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) ++found;
      }
      files += found;
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  std::printf("{\"seconds\": %.6f, \"files\": %zu}\n", seconds_since(begin), files.load());
  return EXIT_SUCCESS;
}

// Reads up to the blank line that ends a request's head. False: the peer has gone.
bool read_head(int fd) {
  std::string head;
  char buffer[4096];
  while (!head.ends_with("\r\n\r\n")) {
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    head.append(buffer, static_cast<std::size_t>(got));
  }
  return true;
}

[[noreturn]] void serve_file(std::uint16_t port, const char* path) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  struct stat st{};
  if (!file || ::fstat(file.get(), &st) != 0) die(path);
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(st.st_size) + "\r\n\r\n";
  const UniqueFd listener = listen_on(port);
  std::puts("listening");
  std::fflush(stdout);
  ::signal(SIGPIPE, SIG_IGN);
  for (;;) {
    const UniqueFd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client || !read_head(client.get())) continue;
    send_all(client.get(), head);
    for (off_t at = 0; at < st.st_size;) {
      if (::sendfile(client.get(), file.get(), &at, static_cast<std::size_t>(st.st_size - at)) <= 0) break;
    }
  }
}

int run(std::span<char*> args) {
  const std::string_view what = args.empty() ? "" : args[0];
  const auto number = [&](std::size_t i) { return std::strtoull(args[i], nullptr, 10); };
  if (what == "spawn" && args.size() == 4) return spawn(number(1), number(2), args[3]);
  if (what == "attributes" && args.size() == 3) return attributes(number(1), args[2]);
  if (what == "pipe" && args.size() >= 2) return pipe_reader(args.subspan(1));
  if (what == "sendfile" && args.size() == 3) serve_file(static_cast<std::uint16_t>(number(1)), args[2]);
  std::fprintf(stderr, "bench_execd_yardstick: see the head of bench/execd/yardstick.cc\n");
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace osb::bench

int main(int argc, char** argv) { return osb::bench::run({argv + 1, argv + argc}); }
