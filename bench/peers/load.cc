// Makes and uses sandboxes of one peer and says how long it took, as one line of JSON. One thread per client, plain
// blocking calls: what is measured is the peer.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <latch>
#include <mutex>
#include <sstream>
#include <vector>

#include "client.h"
#include "workers.h"

namespace osb::bench {
namespace {

constexpr const char* kUsage = R"(usage: bench_peers_load PEER VERB N [M]

PEER  lifecycle:PORT:KEY:IMAGE[:ENGINE_SOCKET]
      native:PORT:KEY:IMAGE:SANDBOXD_SOCKET
      engine:SOCKET:IMAGE
      oci:PROGRAM AND ARGUMENTS:BUNDLE
      bwrap:ROOT
VERB  create CLIENTS ROUNDS     that many at once until the first output, then all removed; failures are counted
      execd COUNT               create until execd in it has answered, where a peer has none of its own
      cycle COUNT CLIENTS       create until it runs, remove, as fast as it goes
      keep COUNT CLIENTS        says that it is ready, waits for a line, creates, says so, and removes them when its
                                input ends
      commands SECONDS CLIENTS  `true` in one sandbox, as fast as it goes
      first COUNT SECONDS       the first byte of `echo first`, one after the other; ends with the earlier limit
      stream COUNT MIB          lines of a command
      files COUNT MIB           uploaded and downloaded
      get SECONDS CLIENTS       asks for a sandbox's state
      pause COUNT               and resume
      snapshot COUNT MIB        of a sandbox that wrote so much; a sandbox from it until its first output)";

using MakeClient = std::function<std::unique_ptr<Client>()>;

struct Sandbox {
  Client& client;
  std::string id;

  explicit Sandbox(Client& of) : client(of) {
    Clocks clocks;
    client.prepare();
    id = client.create(Until::Output, clocks);
  }
  ~Sandbox() {
    try {
      client.remove(id);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "load: remove: %s\n", error.what());
    }
  }
  Sandbox(const Sandbox&) = delete;
};

void remove_all(const MakeClient& make, const std::vector<std::string>& ids) {
  std::atomic<std::size_t> next = 0;
  by_threads(8, [&](unsigned) {
    const auto client = make();
    for (std::size_t i; (i = next.fetch_add(1)) < ids.size();) {
      if (!ids[i].empty()) client->remove(ids[i]);
    }
  });
}

std::string in_quotes(const std::string& text) {
  std::string out = "\"";
  for (const char c : text.substr(0, 300)) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

void create(const MakeClient& make, unsigned clients, unsigned rounds) {
  Samples started, running, answered, output;
  std::string error;
  unsigned failed = 0;
  double slowest = 0;
  std::mutex lock;
  for (unsigned round = 0; round < rounds; ++round) {
    std::vector<std::string> ids(clients);
    std::latch ready(clients);
    by_threads(clients, [&](unsigned i) {
      const auto client = make();
      Clocks clocks;
      std::string problem;
      try {
        client->prepare();
      } catch (const std::exception& failure) {
        problem = failure.what();
      }
      ready.arrive_and_wait();
      const auto start = Clock::now();
      try {
        if (problem.empty()) ids[i] = client->create(Until::Output, clocks);
      } catch (const std::exception& failure) {
        problem = failure.what();
      }
      const std::lock_guard guard(lock);
      slowest = std::max(slowest, seconds_since(start) * 1e3);
      if (!problem.empty()) {
        ++failed;
        error = problem;
        return;
      }
      for (auto [value, samples] : {std::pair(clocks.started, &started),
                                    {clocks.running, &running},
                                    {clocks.answered, &answered},
                                    {clocks.output, &output}}) {
        if (value >= 0) samples->add(value);
      }
    });
    remove_all(make, ids);
    space_out(50);
  }
  std::printf("{\"asked\": %u, \"failed\": %u, \"error\": %s, \"slowest_ms\": %.2f", clients * rounds, failed,
              in_quotes(error).c_str(), slowest);
  for (auto [name, samples] :
       {std::pair("started", &started), {"running", &running}, {"answered", &answered}, {"output", &output}}) {
    if (samples->size() == 0) continue;
    std::printf(", \"%s\": ", name);
    samples->print(1);
  }
  std::printf("}\n");
}

void execd(Client& client, unsigned count) {
  Samples samples;
  const auto begin = Clock::now();
  for (unsigned i = 0; i < count; ++i) {
    Clocks clocks;
    client.prepare();
    client.remove(client.create(Until::Answered, clocks));
    samples.add(clocks.answered);
    space_out(50);
  }
  samples.print(seconds_since(begin));
}

// work(client) over and over by that many clients while `more()`.
template <typename More, typename Work>
void timed(const MakeClient& make, unsigned clients, More more, Work work) {
  Samples samples;
  std::mutex lock;
  const auto begin = Clock::now();
  by_threads(clients, [&](unsigned) {
    const auto client = make();
    client->prepare();
    while (more(begin)) {
      const auto start = Clock::now();
      work(*client);
      const std::lock_guard guard(lock);
      samples.add(seconds_since(start) * 1e3);
    }
  });
  samples.print(seconds_since(begin));
}

void cycle(const MakeClient& make, unsigned count, unsigned clients) {
  std::atomic<unsigned> begun = 0;
  timed(
      make, clients, [&](auto) { return begun.fetch_add(1) < count; },
      [](Client& client) {
        Clocks clocks;
        client.prepare();
        client.remove(client.create(Until::Running, clocks));
      });
}

void keep(const MakeClient& make, unsigned count, unsigned clients) {
  std::string line;
  std::printf("{\"ready\": true}\n");
  std::fflush(stdout);
  std::getline(std::cin, line);
  std::atomic<unsigned> begun = 0;
  std::vector<std::string> ids(count);
  try {
    by_threads(clients, [&](unsigned) {
      const auto client = make();
      for (unsigned i; (i = begun.fetch_add(1)) < count;) {
        Clocks clocks;
        client->prepare();
        ids[i] = client->create(Until::Running, clocks);
      }
    });
    std::printf("{\"count\": %u}\n", count);
    std::fflush(stdout);
    while (std::getline(std::cin, line)) {
    }
  } catch (...) {
    remove_all(make, ids);
    throw;
  }
  remove_all(make, ids);
}

void in_one(const MakeClient& make, unsigned seconds, unsigned clients, void (Client::*what)(const std::string&)) {
  const auto owner = make();
  const Sandbox sandbox(*owner);
  timed(
      make, clients, [&](auto begin) { return seconds_since(begin) < seconds; },
      [&](Client& client) { (client.*what)(sandbox.id); });
}

void first(Client& client, unsigned count, unsigned seconds) {
  const Sandbox sandbox(client);
  Samples samples;
  const auto begin = Clock::now();
  while (samples.size() < count && seconds_since(begin) < seconds) {
    samples.add(client.first_byte(sandbox.id));
    space_out(5);
  }
  samples.print(seconds_since(begin));
}

// Megabytes per second of the best of `count`: others can only make it slower.
template <typename Work>
double best_rate(unsigned count, unsigned mib, Work work) {
  double best = 0;
  for (unsigned i = 0; i < count; ++i) {
    const auto begin = Clock::now();
    work();
    best = std::max(best, mib * 1.048576 / seconds_since(begin));
  }
  return best;
}

void stream(Client& client, unsigned count, unsigned mib) {
  const Sandbox sandbox(client);
  std::printf("{\"mb_s\": %.1f}\n", best_rate(count, mib, [&] { client.stream(sandbox.id, mib); }));
}

void files(Client& client, unsigned count, unsigned mib) {
  const Sandbox sandbox(client);
  std::string data(std::size_t{mib} << 20, 'x');
  for (std::size_t i = 79; i < data.size(); i += 80) data[i] = '\n';
  const double up = best_rate(count, mib, [&] { client.upload(sandbox.id, data); });
  const double down = best_rate(count, mib, [&] { client.download(sandbox.id, data.size()); });
  std::printf("{\"up_mb_s\": %.1f, \"down_mb_s\": %.1f}\n", up, down);
}

void pause(Client& client, unsigned count) {
  const Sandbox sandbox(client);
  Samples paused, resumed;
  const auto all = Clock::now();
  for (unsigned i = 0; i < count; ++i) {
    auto begin = Clock::now();
    client.pause(sandbox.id);
    paused.add(seconds_since(begin) * 1e3);
    begin = Clock::now();
    client.resume(sandbox.id);
    resumed.add(seconds_since(begin) * 1e3);
    space_out(20);
  }
  std::printf("{\"pause\": ");
  paused.print(seconds_since(all));
  std::printf(", \"resume\": ");
  resumed.print(seconds_since(all));
  std::printf("}\n");
}

void snapshot(Client& client, unsigned count, unsigned mib) {
  const Sandbox sandbox(client);
  client.upload(sandbox.id, std::string(std::size_t{mib} << 20, 'x'));
  Samples taken, restored;
  const auto all = Clock::now();
  for (unsigned i = 0; i < count; ++i) {
    client.prepare();
    const auto begin = Clock::now();
    const std::string snapshot = client.snapshot(sandbox.id);
    taken.add(seconds_since(begin) * 1e3);
    Clocks clocks;
    client.prepare();
    client.remove(client.restore(snapshot, clocks));
    restored.add(clocks.output);
    client.remove_snapshot(snapshot);
  }
  std::printf("{\"snapshot\": ");
  taken.print(seconds_since(all));
  std::printf(", \"restore\": ");
  restored.print(seconds_since(all));
  std::printf("}\n");
}

MakeClient parse_peer(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ':');) parts.push_back(part);
  parts.resize(6);
  if (parts[0] == "lifecycle" || parts[0] == "native") {
    const auto port = static_cast<std::uint16_t>(std::atoi(parts[1].c_str()));
    const StartedBy started{parts[0] == "native" ? StartedBy::Kind::Sandboxd : StartedBy::Kind::Engine, parts[5]};
    // An image has a colon in its name.
    return [=] { return lifecycle_client(port, parts[2], parts[3] + ":" + parts[4], started); };
  }
  if (parts[0] == "engine") return [=] { return engine_client(parts[1], parts[2] + ":" + parts[3]); };
  if (parts[0] == "oci") return [=] { return oci_client(parts[1], parts[2]); };
  if (parts[0] == "bwrap") return [=] { return bwrap_client(parts[1]); };
  throw std::runtime_error("no such peer: " + text);
}

int run(int argc, char** argv) {
  if (argc < 4) throw std::runtime_error(kUsage);
  const MakeClient make = parse_peer(argv[1]);
  const auto client = make();
  const std::string verb = argv[2];
  const auto n = static_cast<unsigned>(std::atoi(argv[3]));
  const auto m = static_cast<unsigned>(std::max(1, argc > 4 ? std::atoi(argv[4]) : 1));
  if (verb == "create")
    create(make, n, m);
  else if (verb == "execd")
    execd(*client, n);
  else if (verb == "cycle")
    cycle(make, n, m);
  else if (verb == "keep")
    keep(make, n, m);
  else if (verb == "commands")
    in_one(make, n, m, &Client::command);
  else if (verb == "get")
    in_one(make, n, m, &Client::get);
  else if (verb == "first")
    first(*client, n, m);
  else if (verb == "stream")
    stream(*client, n, m);
  else if (verb == "files")
    files(*client, n, m);
  else if (verb == "pause")
    pause(*client, n);
  else if (verb == "snapshot")
    snapshot(*client, n, m);
  else
    throw std::runtime_error("cannot " + verb);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace osb::bench

int main(int argc, char** argv) try { return osb::bench::run(argc, argv); } catch (const std::exception& error) {
  std::fprintf(stderr, "load: %s\n", error.what());
  return EXIT_FAILURE;
}
