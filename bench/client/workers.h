#pragma once

#include <ctime>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace osb::bench {

// Runs work(0) to work(count - 1) in a thread each and returns when all have ended. The first failure is thrown then.
template <typename Work>
void by_threads(unsigned count, Work work) {
  std::exception_ptr failed;
  std::mutex lock;
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (unsigned i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard guard(lock);
        if (!failed) failed = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failed) std::rethrow_exception(failed);
}

// Between measurements that are spaced on purpose: back-to-back loops hide what the kernel defers.
inline void space_out(unsigned milliseconds) {
  const timespec time{milliseconds / 1000, static_cast<long>(milliseconds % 1000) * 1'000'000};
  ::nanosleep(&time, nullptr);
}

}  // namespace osb::bench
