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
#include <memory>
#include <mutex>
#include <string>
#include <unistd.h>
#include <vector>

#include "connection.h"
#include "samples.h"
#include "workers.h"

namespace {

using namespace osb::bench;

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

void spaced(Bench& bench, unsigned count, unsigned gap, bool command) {
  Connection connection(bench.socket);
  Samples samples, removed;
  const auto begin = Clock::now();
  for (unsigned i = 0; i < count; ++i) {
    const std::string id = bench.new_id();
    auto start = Clock::now();
    const std::string made = bench.create(connection, id);
    if (command) {
      Connection execd(field(made, "execd_socket"));
      execd.exchange("POST", "/command", "X-EXECD-ACCESS-TOKEN: " + field(made, "execd_token") + "\r\n",
                     R"({"command":"echo first"})", 200, R"("text":"first")");
    }
    samples.add(seconds_since(start) * 1e3);
    start = Clock::now();
    bench.remove(connection, id);
    removed.add(seconds_since(start) * 1e3);
    space_out(gap);
  }
  samples.print(seconds_since(begin), removed.text("remove_"));
}

void burst(Bench& bench, unsigned count) {
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<std::string> ids;
  for (unsigned i = 0; i < count; ++i) {
    connections.push_back(std::make_unique<Connection>(bench.socket));
    ids.push_back(bench.new_id());
  }
  const auto start = Clock::now();
  by_threads(count, [&](unsigned i) { bench.create(*connections[i], ids[i]); });
  const double all = seconds_since(start);
  for (unsigned i = 0; i < count; ++i) bench.remove(*connections[i], ids[i]);
  std::printf("{\"count\": %u, \"all_ms\": %.2f}\n", count, all * 1e3);
}

void cycle(Bench& bench, double seconds, unsigned threads) {
  Samples samples;
  std::mutex lock;
  const auto begin = Clock::now();
  by_threads(threads, [&](unsigned) {
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
  samples.print(seconds_since(begin));
}

void keep(Bench& bench, unsigned count, unsigned threads) {
  std::atomic<unsigned> begun = 0;
  const auto begin = Clock::now();
  by_threads(threads, [&](unsigned) {
    Connection connection(bench.socket);
    while (begun.fetch_add(1) < count) bench.create(connection, bench.new_id());
  });
  std::printf("{\"count\": %u, \"per_s\": %.1f}\n", count, count / seconds_since(begin));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 5) throw std::runtime_error("usage: SOCKET IMAGE create|create-from|command|burst|cycle|keep N [M]");
  Bench bench{argv[1], argv[2]};
  const std::string what = argv[3];
  const auto first = static_cast<unsigned>(std::atoi(argv[4]));
  const auto second = static_cast<unsigned>(argc > 5 ? std::atoi(argv[5]) : 0);
  if (what == "create-from") bench.source = "snapshot";
  if (what == "create" || what == "create-from" || what == "command") spaced(bench, first, second, what == "command");
  if (what == "burst") burst(bench, first);
  if (what == "cycle") cycle(bench, first, std::max(1u, second));
  if (what == "keep") keep(bench, first, std::max(1u, second));
} catch (const std::exception& error) {
  std::fprintf(stderr, "load: %s\n", error.what());
  return EXIT_FAILURE;
}
