// The load generator of bench/execd: one thread, plain sockets, one line of JSON as its result. Errors end it.
// PORT is on loopback; get and upload take ADDRESS:PORT too.
//
// - commands PORT TOKEN CLIENTS COUNT COMMAND: COUNT times POST /command by CLIENTS at once, request sent to stream
//   closed
// - stamped PORT TOKEN COUNT COMMAND: the command prints its clock: how old is the time when it arrives?
// - output PORT TOKEN COMMAND: one command that prints a lot
// - get PORT TOKEN TARGET [FILE]: one GET, body written to the file or thrown away
// - upload PORT TOKEN PATH BYTES: one POST /files/upload of a file of BYTES
// - send PORT BYTES: the same bytes without HTTP, until the peer closes
// - start COUNT PROGRAM: COUNT starts of execd with an inherited listener to the answered /ping

#include <array>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <span>
#include <spawn.h>
#include <string>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <vector>

#include "loopback.h"
#include "response_reader.h"
#include "samples.h"

namespace osb::bench {
namespace {

constexpr std::size_t kBuffer = 256 * 1024;

std::uint16_t to_port(const char* text) { return static_cast<std::uint16_t>(std::atoi(text)); }

std::string request(std::string_view method, std::string_view target, std::string_view token,
                    std::string_view more = {}) {
  std::string out;
  out.append(method).append(" ").append(target).append(" HTTP/1.1\r\nHost: 127.0.0.1\r\n");
  out.append("X-EXECD-ACCESS-TOKEN: ").append(token).append("\r\n").append(more).append("\r\n");
  return out;
}

std::string command_request(std::string_view token, std::string_view command) {
  const std::string body = "{\"command\":\"" + std::string(command) + "\"}";
  const std::string length =
      "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  return request("POST", "/command", token, length) + body;
}

void expect_success(int status, std::string_view tail) {
  if (status == 200 && tail.find("execution_complete") != std::string_view::npos) return;
  std::fprintf(stderr, "command failed: status %d, %.*s\n", status, static_cast<int>(tail.size()), tail.data());
  std::exit(EXIT_FAILURE);
}

std::size_t receive(int fd, std::span<char> buffer) {
  const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
  if (got < 0) die("recv");
  if (got == 0) {
    std::fprintf(stderr, "connection closed in a response\n");
    std::exit(EXIT_FAILURE);
  }
  return static_cast<std::size_t>(got);
}

// Reads one response to its end, and gives its status.
template <typename OnBody>
int read_response(int fd, OnBody on_body) {
  std::vector<char> buffer(kBuffer);
  ResponseReader reader;
  while (!reader.feed({buffer.data(), receive(fd, buffer)}, on_body)) {
  }
  return reader.status();
}

struct Client {
  UniqueFd fd;
  ResponseReader reader;
  std::string body;
  Clock::time_point sent;
};

void send_next(Client& client, std::string_view wire) {
  client.reader.reset();
  client.body.clear();
  client.sent = Clock::now();
  send_all(client.fd.get(), wire);
}

int commands(std::uint16_t port, std::string_view token, std::size_t clients, std::size_t count,
             std::string_view command) {
  const std::string wire = command_request(token, command);
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  std::vector<Client> all(clients);
  for (std::size_t i = 0; i < clients; ++i) {
    all[i].fd = connect_to(port);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, all[i].fd.get(), &event) != 0) die("epoll_ctl");
  }
  Samples samples;
  const auto begin = Clock::now();
  std::size_t started = 0;
  for (; started < std::min(clients, count); ++started) send_next(all[started], wire);
  std::array<char, 16 * 1024> buffer;
  std::array<epoll_event, 64> events;
  while (samples.size() < count) {
    const int ready = ::epoll_wait(epoll.get(), events.data(), events.size(), -1);
    for (int i = 0; i < ready; ++i) {
      Client& client = all[events[static_cast<std::size_t>(i)].data.u64];
      const std::size_t got = receive(client.fd.get(), buffer);
      if (!client.reader.feed({buffer.data(), got}, [&](std::string_view piece) { client.body += piece; })) continue;
      samples.add(seconds_since(client.sent) * 1e3);
      expect_success(client.reader.status(), client.body);
      if (started++ < count) send_next(client, wire);
    }
  }
  samples.print(seconds_since(begin));
  return EXIT_SUCCESS;
}

// Nanoseconds of the monotonic clock, which all processes share.
std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

int stamped(std::uint16_t port, std::string_view token, std::size_t count, std::string_view command) {
  const std::string wire = command_request(token, command);
  const UniqueFd fd = connect_to(port);
  Samples samples;
  const auto begin = Clock::now();
  while (samples.size() < count) {
    send_all(fd.get(), wire);
    std::array<char, 16 * 1024> buffer;
    ResponseReader reader;
    std::string body;
    bool seen = false, done = false;
    while (!done) {
      const std::size_t got = receive(fd.get(), buffer);
      const std::int64_t arrived = now();
      done = reader.feed({buffer.data(), got}, [&](std::string_view piece) { body += piece; });
      constexpr std::string_view kText = R"("type":"stdout","text":")";
      const auto at = seen ? std::string::npos : body.find(kText);
      if (at == std::string::npos) continue;
      seen = true;
      samples.add(static_cast<double>(arrived - std::atoll(body.c_str() + at + kText.size())) / 1e6);
    }
    expect_success(reader.status(), seen ? body : "no output");
  }
  samples.print(seconds_since(begin));
  return EXIT_SUCCESS;
}

int output(std::uint16_t port, std::string_view token, std::string_view command) {
  const UniqueFd fd = connect_to(port);
  std::uint64_t bytes = 0, line_ends = 0;
  std::string tail;
  const auto begin = Clock::now();
  send_all(fd.get(), command_request(token, command));
  const int status = read_response(fd.get(), [&](std::string_view piece) {
    bytes += piece.size();
    line_ends += static_cast<std::uint64_t>(std::count(piece.begin(), piece.end(), '\n'));
    tail.append(piece.substr(piece.size() - std::min<std::size_t>(piece.size(), 512)));
    if (tail.size() > 64 * 1024) tail.erase(0, tail.size() - 512);
  });
  const double seconds = seconds_since(begin);
  expect_success(status, tail);
  // Every event ends with two of them, and those of the text are escaped.
  std::printf("{\"seconds\": %.6f, \"wire_bytes\": %llu, \"events\": %llu}\n", seconds,
              static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(line_ends / 2));
  return EXIT_SUCCESS;
}

// `file` nullptr: thrown away.
int get(const std::string& where, std::string_view token, std::string_view target, const char* file) {
  const UniqueFd fd = connect_to(where);
  const UniqueFd out(file != nullptr ? ::open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1);
  if (file != nullptr && !out) die(file);
  std::uint64_t bytes = 0;
  const auto begin = Clock::now();
  send_all(fd.get(), request("GET", target, token));
  const int status = read_response(fd.get(), [&](std::string_view piece) {
    bytes += piece.size();
    while (out && !piece.empty()) {
      const ssize_t put = ::write(out.get(), piece.data(), piece.size());
      if (put < 0) die(file);
      piece.remove_prefix(static_cast<std::size_t>(put));
    }
  });
  const double seconds = seconds_since(begin);
  std::printf("{\"status\": %d, \"seconds\": %.6f, \"bytes\": %llu}\n", status, seconds,
              static_cast<unsigned long long>(bytes));
  return EXIT_SUCCESS;
}

// Blocks of bytes that do not repeat within a block and look like no boundary.
void send_contents(int fd, std::uint64_t bytes) {
  std::string block(kBuffer, '\0');
  std::uint64_t state = 88172645463325252ULL;
  for (char& byte : block) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<char>(state);
  }
  while (bytes > 0) {
    const std::string_view piece = std::string_view(block).substr(0, bytes);
    send_all(fd, piece);
    bytes -= piece.size();
  }
}

int upload(const std::string& where, std::string_view token, std::string_view path, std::uint64_t bytes) {
  const UniqueFd fd = connect_to(where);
  const std::string head =
      "--bench-boundary\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n"
      "Content-Type: application/json\r\n\r\n{\"path\":\"" +
      std::string(path) +
      "\",\"mode\":644}\r\n--bench-boundary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n"
      "Content-Type: application/octet-stream\r\n\r\n";
  const std::string tail = "\r\n--bench-boundary--\r\n";
  const std::string headers = "Content-Type: multipart/form-data; boundary=bench-boundary\r\nContent-Length: " +
                              std::to_string(head.size() + bytes + tail.size()) + "\r\n";
  send_all(fd.get(), request("POST", "/files/upload", token, headers) + head);
  send_contents(fd.get(), bytes);
  send_all(fd.get(), tail);
  const int status = read_response(fd.get(), [](std::string_view) {});
  std::printf("{\"status\": %d}\n", status);
  return status == 200 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int send_plain(std::uint16_t port, std::uint64_t bytes) {
  const UniqueFd fd = connect_to(port);
  send_contents(fd.get(), bytes);
  ::shutdown(fd.get(), SHUT_WR);
  char byte;
  while (::recv(fd.get(), &byte, 1, 0) > 0) {
  }
  return EXIT_SUCCESS;
}

int start(std::size_t count, const char* program) {
  constexpr const char* kToken = "bench";
  const std::string wire = request("GET", "/ping", kToken);
  Samples samples;
  const auto all = Clock::now();
  while (samples.size() < count) {
    // The request is sent before the program starts, so the answer comes as soon as it can and nothing polls.
    const UniqueFd listener = listen_on(0);
    const UniqueFd client = connect_to(port_of(listener));
    send_all(client.get(), wire);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, listener.get(), 3);
    ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    std::array<std::string, 5> args = {program, "--listen-fd", "3", "--access-token", kToken};
    std::array<char*, 6> argv{};
    std::transform(args.begin(), args.end(), argv.begin(), [](std::string& arg) { return arg.data(); });
    pid_t pid = -1;
    const auto begin = Clock::now();
    if ((errno = ::posix_spawn(&pid, program, &actions, nullptr, argv.data(), environ)) != 0) die(program);
    const int status = read_response(client.get(), [](std::string_view) {});
    samples.add(seconds_since(begin) * 1e3);
    ::posix_spawn_file_actions_destroy(&actions);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    if (status != 200) die("/ping was refused");
  }
  samples.print(seconds_since(all));
  return EXIT_SUCCESS;
}

int run(std::span<char*> args) {
  const std::string_view what = args.empty() ? "" : args[0];
  const auto is = [&](std::string_view name, std::size_t count) { return what == name && args.size() == count + 1; };
  const auto number = [&](std::size_t i) { return std::strtoull(args[i], nullptr, 10); };
  if (is("commands", 5)) return commands(to_port(args[1]), args[2], number(3), number(4), args[5]);
  if (is("stamped", 4)) return stamped(to_port(args[1]), args[2], number(3), args[4]);
  if (is("output", 3)) return output(to_port(args[1]), args[2], args[3]);
  if (is("get", 3)) return get(args[1], args[2], args[3], nullptr);
  if (is("get", 4)) return get(args[1], args[2], args[3], args[4]);
  if (is("upload", 4)) return upload(args[1], args[2], args[3], number(4));
  if (is("send", 2)) return send_plain(to_port(args[1]), number(2));
  if (is("start", 2)) return start(number(1), args[2]);
  std::fprintf(stderr, "bench_execd_load: see the head of bench/execd/load.cc\n");
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace osb::bench

int main(int argc, char** argv) { return osb::bench::run({argv + 1, argv + argc}); }
