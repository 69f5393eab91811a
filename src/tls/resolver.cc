#include "tls/resolver.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <deque>
#include <mutex>
#include <netdb.h>
#include <optional>
#include <signal.h>
#include <system_error>
#include <thread>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace osb::tls {
namespace {

using Addresses = Result<std::vector<std::string>>;

constexpr std::size_t kMaxThreads = 8;

Failure lookup_failure(const std::string& host, int rc, int error) {
  const std::string what = "resolve " + host + ": ";
  switch (rc) {
    case EAI_NONAME:
    case EAI_NODATA:
      return fail(Code::NotFound, what + "no such host");
    case EAI_SYSTEM:
      return Failure(Error(Code::Unavailable, what + std::generic_category().message(error), error));
    default:
      return fail(Code::Unavailable, what + ::gai_strerror(rc));
  }
}

Addresses look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int rc = ::getaddrinfo(host.c_str(), nullptr, &hints, &list); rc != 0) {
    return lookup_failure(host, rc, errno);
  }
  std::vector<std::string> found;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::ranges::find(found, text) == found.end()) found.emplace_back(text);
  }
  ::freeaddrinfo(list);
  if (found.empty()) return fail(Code::NotFound, "resolve " + host + ": no address");
  return found;
}

// Belongs to the waiting coroutine; made, used and destroyed on the loop.
struct Pending {
  explicit Pending(const net::any_io_executor& executor) : wake(executor) {}
  net::steady_timer wake;
  std::optional<Addresses> result;
};

}  // namespace

bool is_ip_address(const std::string& host) {
  in6_addr ignored;
  return ::inet_pton(AF_INET, host.c_str(), &ignored) == 1 || ::inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

struct Resolver::State : std::enable_shared_from_this<State> {
  struct Job {
    std::string host;
    std::weak_ptr<Pending> pending;
  };

  explicit State(net::any_io_executor e) : executor(std::move(e)) {}

  Result<void> add(Job job) {
    const std::lock_guard lock(mutex);
    jobs.push_back(std::move(job));
    if (threads == kMaxThreads) return {};
    // Signals belong to the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    Result<void> started;
    try {
      std::thread([state = shared_from_this()] { state->work(); }).detach();
      ++threads;
    } catch (const std::system_error& e) {
      if (threads == 0) {
        jobs.clear();
        started = fail(Code::Unavailable, std::string("thread for name resolution: ") + e.what());
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
  }

  void work() {
    std::unique_lock lock(mutex);
    while (!gone && !jobs.empty()) {
      const Job job = std::move(jobs.front());
      jobs.pop_front();
      if (job.pending.expired()) continue;
      lock.unlock();
      Addresses result = look_up(job.host);
      lock.lock();
      if (gone) break;
      net::post(executor, [weak = job.pending, result = std::move(result)]() mutable {
        const auto pending = weak.lock();
        if (!pending) return;
        pending->result = std::move(result);
        pending->wake.cancel();
      });
    }
    --threads;
  }

  const net::any_io_executor executor;
  std::mutex mutex;
  std::deque<Job> jobs;
  std::size_t threads = 0;
  bool gone = false;
};

Resolver::Resolver(net::any_io_executor executor) : state_(std::make_shared<State>(std::move(executor))) {}

Resolver::~Resolver() {
  const std::lock_guard lock(state_->mutex);
  state_->gone = true;
  state_->jobs.clear();
}

net::awaitable<Addresses> Resolver::resolve(std::string host, std::chrono::milliseconds timeout) {
  if (is_ip_address(host)) co_return std::vector{host};
  if (host.empty()) co_return fail(Code::InvalidRequest, "resolve: empty host name");
  const auto pending = std::make_shared<Pending>(state_->executor);
  pending->wake.expires_after(timeout);
  if (auto added = state_->add({host, pending}); !added) co_return Failure(added.error());
  const auto [ec] = co_await pending->wake.async_wait(net::as_tuple(net::use_awaitable));
  if (pending->result) co_return std::move(*pending->result);
  if (ec) co_return fail(Code::Cancelled, "resolve " + host + ": cancelled");
  co_return fail(Code::Timeout, "resolve " + host + ": no answer in time (check this machine's DNS servers)");
}

}  // namespace osb::tls
