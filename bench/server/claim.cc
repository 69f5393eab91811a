// How long it takes to get a sandbox that is there already: the SDK's pool, until execd in it has answered.
//
//   bench_server_claim PORT KEY IMAGE COUNT

#include <cstdlib>
#include <opensandbox/pool.h>
#include <stdexcept>

#include "samples.h"
#include "workers.h"

namespace osb::bench {
namespace {

template <typename T>
T must(opensandbox::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

void run(const std::string& port, const std::string& key, const std::string& image, int count) {
  const auto client = must(opensandbox::Client::open({.domain = "127.0.0.1:" + port, .api_key = key}));
  opensandbox::PoolConfig config{.name = "claim", .max_idle = count};
  config.creation.image = image;
  config.warmup_concurrency = count;
  config.reconcile_interval = std::chrono::hours(1);  // filled once
  const auto pool = must(opensandbox::SandboxPool::make(client, config));
  must(pool->start());
  const auto begin = Clock::now();
  while (must(pool->snapshot()).idle_count < count) {
    if (seconds_since(begin) > 60)
      throw std::runtime_error("the pool does not fill: " + must(pool->snapshot()).last_error);
    space_out(20);
  }
  Samples samples;
  std::vector<opensandbox::Sandbox> claimed;
  for (int i = 0; i < count; ++i) {
    space_out(20);
    const auto start = Clock::now();
    claimed.push_back(must(pool->acquire(std::nullopt, opensandbox::AcquirePolicy::FailFast)));
    samples.add(seconds_since(start) * 1e3);
  }
  for (const opensandbox::Sandbox& each : claimed) must(each.kill());
  samples.print(seconds_since(begin));
}

}  // namespace
}  // namespace osb::bench

int main(int argc, char** argv) try {
  if (argc != 5) throw std::runtime_error("usage: bench_server_claim PORT KEY IMAGE COUNT");
  osb::bench::run(argv[1], argv[2], argv[3], std::atoi(argv[4]));
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  std::fprintf(stderr, "claim: %s\n", error.what());
  return EXIT_FAILURE;
}
