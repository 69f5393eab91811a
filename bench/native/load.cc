// Creates sandboxes through sandboxd's socket and says how long each took. One thread per connection, plain blocking
// sockets: what is measured is the daemon.
//
//   bench_native_load SOCKET IMAGE create  COUNT GAP_MS       one after the other, spaced; each removed again
//   bench_native_load SOCKET ID create-from COUNT GAP_MS      the same, from the snapshot with that id
//   bench_native_load SOCKET IMAGE command COUNT GAP_MS       the same, until the first command's output has arrived
//   bench_native_load SOCKET IMAGE burst   COUNT              all at once; the last one's time counts
//   bench_native_load SOCKET IMAGE cycle   SECONDS THREADS    create and remove as fast as it goes
//   bench_native_load SOCKET IMAGE keep    COUNT THREADS      creates and leaves them

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "response_reader.h"
#include "samples.h"

namespace {

using namespace osb::bench;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "load: %s\n", what.c_str());
  std::exit(EXIT_FAILURE);
}

class Connection {
 public:
  explicit Connection(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0) fail("connect " + path);
  }
  ~Connection() { ::close(fd_); }
  Connection(const Connection&) = delete;

  // `until`: returns as soon as the body contains it, and the connection is of no use any more.
  std::string exchange(const std::string& method, const std::string& target, const std::string& headers,
                       const std::string& body, int want, std::string_view until = {}) {
    const std::string request = method + " " + target + " HTTP/1.1\r\nHost: x\r\n" + headers +
                                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    if (::send(fd_, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
      fail("send " + target);
    }
    ResponseReader reader;
    std::string text;
    char buffer[16384];
    for (;;) {
      const ssize_t size = ::recv(fd_, buffer, sizeof buffer, 0);
      if (size <= 0) fail(target + ": the connection ended");
      const bool done = reader.feed({buffer, static_cast<std::size_t>(size)}, [&](std::string_view p) { text += p; });
      if (!until.empty() && text.find(until) != std::string::npos) return text;
      if (!done) continue;
      if (reader.status() != want) fail(target + ": " + std::to_string(reader.status()) + " " + text);
      return text;
    }
  }

 private:
  int fd_;
};

std::string field(const std::string& json, const std::string& name) {
  const std::string key = "\"" + name + "\":\"";
  const auto at = json.find(key);
  if (at == std::string::npos) fail("no " + name + " in " + json);
  return json.substr(at + key.size(), json.find('"', at + key.size()) - at - key.size());
}

struct Bench {
  std::string socket, image;
  std::string source = "image";  // or "snapshot": what `image` names
  std::atomic<unsigned> next = 0;

  std::string new_id() { return "bench-" + std::to_string(::getpid()) + "-" + std::to_string(next++); }
  std::string create(Connection& connection, const std::string& id) {
    return connection.exchange("POST", "/v1/sandboxes", "",
                               R"({"id":")" + id + R"(",")" + source + R"(":")" + image + R"("})", 201);
  }
  void remove(Connection& connection, const std::string& id) {
    connection.exchange("DELETE", "/v1/sandboxes/" + id, "", "", 204);
  }
};

void pause(unsigned milliseconds) {
  const timespec time{milliseconds / 1000, static_cast<long>(milliseconds % 1000) * 1'000'000};
  ::nanosleep(&time, nullptr);
}

void spaced(Bench& bench, unsigned count, unsigned gap, bool command) {
  Connection connection(bench.socket);
  Samples samples;
  const auto begin = Clock::now();
  for (unsigned i = 0; i < count; ++i) {
    const std::string id = bench.new_id();
    const auto start = Clock::now();
    const std::string made = bench.create(connection, id);
    if (command) {
      Connection execd(field(made, "execd_socket"));
      execd.exchange("POST", "/command", "X-EXECD-ACCESS-TOKEN: " + field(made, "execd_token") + "\r\n",
                     R"({"command":"echo first"})", 200, R"("text":"first")");
    }
    samples.add(seconds_since(start) * 1e3);
    bench.remove(connection, id);
    pause(gap);
  }
  samples.print(seconds_since(begin));
}

void burst(Bench& bench, unsigned count) {
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<std::string> ids;
  for (unsigned i = 0; i < count; ++i) {
    connections.push_back(std::make_unique<Connection>(bench.socket));
    ids.push_back(bench.new_id());
  }
  Samples samples;
  std::mutex lock;
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (unsigned i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      bench.create(*connections[i], ids[i]);
      const std::lock_guard guard(lock);
      samples.add(seconds_since(start) * 1e3);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double all = seconds_since(start);
  for (unsigned i = 0; i < count; ++i) bench.remove(*connections[i], ids[i]);
  std::printf("{\"count\": %u, \"all_ms\": %.2f}\n", count, all * 1e3);
}

void cycle(Bench& bench, double seconds, unsigned threads) {
  Samples samples;
  std::mutex lock;
  std::vector<std::thread> workers;
  const auto begin = Clock::now();
  for (unsigned i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      Connection connection(bench.socket);
      while (seconds_since(begin) < seconds) {
        const std::string id = bench.new_id();
        const auto start = Clock::now();
        bench.create(connection, id);
        bench.remove(connection, id);
        const std::lock_guard guard(lock);
        samples.add(seconds_since(start) * 1e3);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  samples.print(seconds_since(begin));
}

void keep(Bench& bench, unsigned count, unsigned threads) {
  std::atomic<unsigned> left = count;
  std::vector<std::thread> workers;
  const auto begin = Clock::now();
  for (unsigned i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      Connection connection(bench.socket);
      while (left.load() > 0 && left.fetch_sub(1) > 0) bench.create(connection, bench.new_id());
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::printf("{\"count\": %u, \"per_s\": %.1f}\n", count, count / seconds_since(begin));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) fail("usage: SOCKET IMAGE create|create-from|command|burst|cycle|keep N [M]");
  Bench bench{argv[1], argv[2]};
  const std::string what = argv[3];
  const auto first = static_cast<unsigned>(std::atoi(argv[4]));
  const auto second = static_cast<unsigned>(argc > 5 ? std::atoi(argv[5]) : 0);
  if (what == "create-from") bench.source = "snapshot";
  if (what == "create" || what == "create-from" || what == "command") spaced(bench, first, second, what == "command");
  if (what == "burst") burst(bench, first);
  if (what == "cycle") cycle(bench, first, std::max(1u, second));
  if (what == "keep") keep(bench, first, std::max(1u, second));
}
