#include "cli/terminal/owned_sandbox.h"

#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/output/spinner.h"

namespace osb::cli {
namespace {

constexpr std::chrono::seconds kLife(600), kRenewEvery(300);
// An image may have to be fetched first; Ctrl-C ends the wait sooner.
constexpr std::chrono::minutes kReady(15);

Problem interrupted(int signal) {
  Problem out{"", "INTERRUPTED", "Interrupted before the sandbox was ready; it was removed."};
  out.exit_code = exit_code_of_signal(signal);
  return out;
}

}  // namespace

Expected<std::unique_ptr<OwnedSandbox>> OwnedSandbox::create(Context& context, opensandbox::CreateOptions options,
                                                             bool renewed, SignalFd& signals) {
  auto manager = context.manager();
  if (!manager) return failed(manager.error());
  if (renewed) options.timeout = kLife;
  options.ready.timeout = kReady;
  Spinner spinner(context.out(), "Creating a sandbox from " + options.image);
  auto made = manager->create(options);
  if (!made) return sdk_failed(context, made.error());

  // The wait is on a thread of its own, so that a signal can end it: removing the sandbox does.
  const UniqueFd done(::eventfd(0, EFD_CLOEXEC));
  std::optional<opensandbox::Result<opensandbox::Sandbox>> ready;
  std::thread waiting([&] {
    ready = opensandbox::Sandbox::connect(manager->client(), made->id, {.ready = options.ready});
    const std::uint64_t one = 1;
    (void)!::write(done.get(), &one, sizeof one);
  });
  std::optional<int> signal;
  std::array<pollfd, 2> waits{pollfd{done.get(), POLLIN, 0}, pollfd{signals.fd(), POLLIN, 0}};
  while (waits[0].revents == 0 && !signal) {
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) break;
    while (const auto came = signals.take()) {
      if (*came != SIGWINCH && *came != SIGCONT && *came != SIGTSTP) signal = came;
    }
  }
  if (signal) (void)manager->kill(made->id);
  waiting.join();
  if (signal) return failed(interrupted(*signal));
  if (!*ready) {
    (void)manager->kill(made->id);
    return sdk_failed(context, ready->error());
  }
  return std::unique_ptr<OwnedSandbox>(new OwnedSandbox(context, std::move(**ready), renewed));
}

OwnedSandbox::OwnedSandbox(Context& context, opensandbox::Sandbox sandbox, bool renewed)
    : context_(context), sandbox_(std::move(sandbox)) {
  if (renewed) renewing_ = std::thread([this] { renew(); });
}

void OwnedSandbox::renew() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kRenewEvery, [this] { return ending_; })) {
    lock.unlock();
    (void)sandbox_.renew(kLife);  // if this fails there is a second chance before the deadline
    lock.lock();
  }
}

OwnedSandbox::~OwnedSandbox() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  if (renewing_.joinable()) renewing_.join();
  if (kept_) return;
  const Spinner spinner(context_.out(), "Removing the sandbox");
  const auto killed = sandbox_.kill();
  if (!killed && !killed.error().not_found()) {
    context_.out().warning("Sandbox " + sandbox_.id() + " could not be removed: " + killed.error().message +
                           "; it ends at its deadline, or with: osb sandbox kill " + sandbox_.id());
  }
}

}  // namespace osb::cli
