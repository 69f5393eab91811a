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

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "connection.h"
#include "samples.h"
#include "workers.h"

namespace {

using namespace osb::bench;

constexpr std::uint16_t kExecdPort = 44772;

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
    if (field(made, "state") != "Running") throw std::runtime_error("created, but " + made);
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

// `work(connection)` COUNT times, by so many threads.
template <typename Work>
void timed(Bench& bench, unsigned count, unsigned threads, Work work) {
  std::atomic<unsigned> begun = 0;
  Samples samples;
  std::mutex lock;
  const auto begin = Clock::now();
  by_threads(threads, [&](unsigned) {
    const auto connection = bench.connect();
    while (begun.fetch_add(1) < count) {
      const auto start = Clock::now();
      work(*connection);
      const std::lock_guard guard(lock);
      samples.add(seconds_since(start) * 1e3);
    }
  });
  samples.print(seconds_since(begin));
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
    space_out(gap);
  }
  samples.print(seconds_since(begin));
}

void burst(Bench& bench, unsigned count) {
  std::vector<std::unique_ptr<Connection>> connections;
  for (unsigned i = 0; i < count; ++i) connections.push_back(bench.connect());
  std::vector<std::string> ids(count);
  const auto start = Clock::now();
  by_threads(count, [&](unsigned i) { ids[i] = bench.create(*connections[i]); });
  const double all = seconds_since(start);
  // By new connections: slow runtimes take so long that a server closes the idle ones.
  for (const std::string& id : ids) bench.remove(*bench.connect(), id);
  std::printf("{\"count\": %u, \"all_ms\": %.2f}\n", count, all * 1e3);
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
    space_out(gap);
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
      if (text.find(event) == std::string::npos) throw std::runtime_error(std::string("lost ") + event + " of " + text);
    }
  });
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 5)
    throw std::runtime_error("usage: PORT KEY create|command|burst|cycle|keep|list|get|calls|commands COUNT ..");
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
    throw std::runtime_error("cannot " + what);
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "load: %s\n", error.what());
  return EXIT_FAILURE;
}
