// Uses the lifecycle API of one server and says how long it took. One thread per connection, plain blocking sockets:
// what is measured is the server.
//
//   bench_server_load PORT KEY create   COUNT GAP_MS     one after the other, spaced, until Running; each removed again
//   bench_server_load PORT KEY command  COUNT GAP_MS     the same, until the first command's output came by the proxy
//   bench_server_load PORT KEY burst    COUNT            all at once until Running; the last one's time counts
//   bench_server_load PORT KEY cycle    COUNT THREADS    create until Running and remove, as fast as it goes
//   bench_server_load PORT KEY keep     COUNT THREADS    creates and leaves them
//   bench_server_load PORT KEY list     COUNT QUERY      GET /v1/sandboxes?QUERY
//   bench_server_load PORT KEY get      COUNT GAP_MS TARGET one after the other, spaced
//   bench_server_load PORT KEY calls    COUNT ID ADDRESS execd's /ping by the proxy and straight at ADDRESS, in turns
//   bench_server_load PORT KEY commands COUNT THREADS ID commands by the proxy; every event of each must arrive

#include <arpa/inet.h>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "response_reader.h"
#include "samples.h"

namespace {

using namespace osb::bench;

constexpr std::uint16_t kExecdPort = 44772;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "load: %s\n", what.c_str());
  std::exit(EXIT_FAILURE);
}

class Connection {
 public:
  Connection(const std::string& host, std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0) fail("connect " + host);
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~Connection() { ::close(fd_); }
  Connection(const Connection&) = delete;

  // `until`: returns as soon as the body contains it, and the connection is of no use any more.
  std::string exchange(const std::string& method, const std::string& target, const std::string& headers,
                       const std::string& body, int want, std::string_view until = {}) {
    const std::string request = method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers +
                                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    if (::send(fd_, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
      fail("send " + target);
    }
    ResponseReader reader;
    std::string text;
    char buffer[65536];
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
  std::uint16_t port;
  std::string key;

  std::unique_ptr<Connection> connect() const { return std::make_unique<Connection>("127.0.0.1", port); }
  std::string headers(std::string_view more = {}) const {
    return "OPEN-SANDBOX-API-KEY: " + key + "\r\n" + std::string(more);
  }

  // The id of a sandbox that runs.
  std::string create(Connection& connection) {
    const std::string made = connection.exchange(
        "POST", "/v1/sandboxes", headers("Prefer: wait=60\r\n"),
        R"({"image":{"uri":"host"},"entrypoint":["tail","-f","/dev/null"],"resourceLimits":{},"timeout":3600})", 202);
    if (field(made, "state") != "Running") fail("created, but " + made);
    return field(made, "id");
  }
  void remove(Connection& connection, const std::string& id) {
    connection.exchange("DELETE", "/v1/sandboxes/" + id, headers(), "", 204);
  }
  // The header that execd asks for.
  std::string token(Connection& connection, const std::string& id) {
    const std::string target = "/v1/sandboxes/" + id + "/endpoints/" + std::to_string(kExecdPort);
    const std::string answer = connection.exchange("GET", target, headers(), "", 200);
    return "X-EXECD-ACCESS-TOKEN: " + field(answer, "X-EXECD-ACCESS-TOKEN") + "\r\n";
  }
  static std::string proxy(const std::string& id, const std::string& rest) {
    return "/sandboxes/" + id + "/proxy/" + std::to_string(kExecdPort) + rest;
  }
};

void pause(unsigned milliseconds) {
  const timespec time{milliseconds / 1000, static_cast<long>(milliseconds % 1000) * 1'000'000};
  ::nanosleep(&time, nullptr);
}

// `work(connection)` COUNT times, by so many threads.
Samples by_threads(Bench& bench, unsigned count, unsigned threads, std::function<void(Connection&)> work) {
  std::atomic<unsigned> begun = 0;
  Samples samples;
  std::mutex lock;
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      const auto connection = bench.connect();
      while (begun.fetch_add(1) < count) {
        const auto start = Clock::now();
        work(*connection);
        const std::lock_guard guard(lock);
        samples.add(seconds_since(start) * 1e3);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  return samples;
}

void spaced(Bench& bench, unsigned count, unsigned gap, bool command) {
  const auto connection = bench.connect();
  Samples samples;
  const auto begin = Clock::now();
  for (unsigned i = 0; i < count; ++i) {
    // The output's end is not awaited, so the command has a connection of its own, made in time.
    const auto proxied = bench.connect();
    const auto start = Clock::now();
    const std::string id = bench.create(*connection);
    if (command) {
      const std::string token = bench.token(*connection, id);
      proxied->exchange("POST", Bench::proxy(id, "/command"), token, R"({"command":"echo first"})", 200,
                        R"("text":"first")");
    }
    samples.add(seconds_since(start) * 1e3);
    bench.remove(*connection, id);
    pause(gap);
  }
  samples.print(seconds_since(begin));
}

void burst(Bench& bench, unsigned count) {
  std::vector<std::unique_ptr<Connection>> connections;
  for (unsigned i = 0; i < count; ++i) connections.push_back(bench.connect());
  std::vector<std::string> ids(count);
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (unsigned i = 0; i < count; ++i) threads.emplace_back([&, i] { ids[i] = bench.create(*connections[i]); });
  for (std::thread& thread : threads) thread.join();
  const double all = seconds_since(start);
  for (unsigned i = 0; i < count; ++i) bench.remove(*connections[i], ids[i]);
  std::printf("{\"count\": %u, \"all_ms\": %.2f}\n", count, all * 1e3);
}

void timed(Bench& bench, unsigned count, unsigned threads, std::function<void(Connection&)> work) {
  const auto begin = Clock::now();
  by_threads(bench, count, threads, std::move(work)).print(seconds_since(begin));
}

void list(Bench& bench, unsigned count, const std::string& query) {
  timed(bench, count, 1, [&](Connection& connection) {
    connection.exchange("GET", "/v1/sandboxes?" + query, bench.headers(), "", 200);
  });
}

void get(Bench& bench, unsigned count, unsigned gap, const std::string& target) {
  const auto connection = bench.connect();
  Samples samples;
  const auto begin = Clock::now();
  for (unsigned i = 0; i < count; ++i) {
    pause(gap);
    const auto start = Clock::now();
    connection->exchange("GET", target, bench.headers(), "", 200);
    samples.add(seconds_since(start) * 1e3);
  }
  samples.print(seconds_since(begin));
}

void calls(Bench& bench, unsigned count, const std::string& id, const std::string& address) {
  const auto proxied = bench.connect();
  const std::string token = bench.token(*proxied, id), target = Bench::proxy(id, "/ping");
  Connection direct(address, kExecdPort);
  Samples by_proxy, straight;
  const auto begin = Clock::now();
  for (unsigned i = 0; i < count; ++i) {
    auto start = Clock::now();
    proxied->exchange("GET", target, token, "", 200);
    by_proxy.add(seconds_since(start) * 1e3);
    start = Clock::now();
    direct.exchange("GET", "/ping", token, "", 200);
    straight.add(seconds_since(start) * 1e3);
  }
  std::printf("{\"proxy\": ");
  by_proxy.print(seconds_since(begin));
  std::printf(", \"direct\": ");
  straight.print(seconds_since(begin));
  std::printf("}\n");
}

void commands(Bench& bench, unsigned count, unsigned threads, const std::string& id) {
  const std::string token = bench.token(*bench.connect(), id);
  timed(bench, count, threads, [&](Connection& connection) {
    const std::string text = connection.exchange("POST", Bench::proxy(id, "/command"), token,
                                                 R"({"command":"echo one; echo two >&2; echo three"})", 200);
    for (const char* event : {R"("type":"init")", R"("text":"one")", R"("text":"two")", R"("text":"three")",
                              R"("type":"execution_complete")"}) {
      if (text.find(event) == std::string::npos) fail(std::string("lost ") + event + " of " + text);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) fail("usage: PORT KEY create|command|burst|cycle|keep|list|get|calls|commands COUNT ..");
  Bench bench{static_cast<std::uint16_t>(std::atoi(argv[1])), argv[2]};
  const std::string what = argv[3];
  const auto count = static_cast<unsigned>(std::atoi(argv[4]));
  const std::string second = argc > 5 ? argv[5] : "", third = argc > 6 ? argv[6] : "";
  const auto number = static_cast<unsigned>(std::max(1, std::atoi(second.c_str())));
  if (what == "create" || what == "command") {
    spaced(bench, count, number, what == "command");
  } else if (what == "burst") {
    burst(bench, count);
  } else if (what == "cycle") {
    timed(bench, count, number, [&](Connection& c) { bench.remove(c, bench.create(c)); });
  } else if (what == "keep") {
    timed(bench, count, number, [&](Connection& c) { bench.create(c); });
  } else if (what == "list") {
    list(bench, count, second);
  } else if (what == "get") {
    get(bench, count, number, third);
  } else if (what == "calls") {
    calls(bench, count, second, third);
  } else if (what == "commands") {
    commands(bench, count, number, third);
  } else {
    fail("cannot " + what);
  }
}
