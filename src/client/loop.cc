#include "client/loop.h"

#include <csignal>

#include "client/wire.h"

namespace opensandbox {
namespace {

constexpr std::chrono::seconds kBackgroundGrace{5};

}  // namespace

void Caller::post(Work work) {
  // Notified under the lock: the caller, and this object with it, may be gone as soon as it is released.
  const std::scoped_lock lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_one();
}

void Caller::finish() {
  const std::scoped_lock lock(mutex_);
  finished_ = true;
  changed_.notify_one();
}

void Caller::wait() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return finished_ || !work_.empty(); });
    if (work_.empty()) break;
    Work work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
  if (thrown_) std::rethrow_exception(thrown_);
}

Client::Core::Core(const ConnectionConfig& config) : work(io.get_executor()) {
  auto opened = async::Client::open(io.get_executor(), config);
  if (!opened) {
    failed = std::move(opened.error());
    return;
  }
  client.emplace(std::move(*opened));
  // Signals are the program's: none is delivered to this thread.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread = std::thread([this] { io.run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Client::Core::run_in_background(async::Task<void> task) {
  {
    const std::scoped_lock lock(mutex);
    ++background;
  }
  net::co_spawn(io, std::move(task), [this](std::exception_ptr, const Result<void>&) {
    const std::scoped_lock lock(mutex);
    --background;
    idle.notify_all();
  });
}

Client::Core::~Core() {
  {
    std::unique_lock lock(mutex);
    idle.wait_for(lock, kBackgroundGrace, [&] { return background == 0; });
  }
  work.reset();
  io.stop();
  if (thread.joinable()) thread.join();
  client.reset();
}

Result<Client> Client::open(ConnectionConfig config) {
  auto core = std::make_shared<Core>(config);
  if (core->failed) return Failure(std::move(*core->failed));
  return Client(std::move(core));
}

Client::Client(std::shared_ptr<Core> core) : core_(std::move(core)) {}
Client::Client(const Client&) = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(const Client&) = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

const ConnectionConfig& Client::config() const { return core_->client->config(); }
Result<void> Client::ping() const { return core_->run_task(core_->client->ping()); }

}  // namespace opensandbox
